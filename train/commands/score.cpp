// saccade score: the metrics of a detection file. It needs neither tensors nor a model.
#include <fmt/format.h>

#include "core/formats/file.h"
#include "core/formats/output_file.h"
#include "core/tensor/error.h"
#include "data/evaluation/evaluators.h"
#include "data/formats/data_format.h"
#include "train/commands/commands.h"

namespace saccade {

int run_score(const ScoreArguments& arguments) {
  check_output_file(arguments.json);
  GroundTruth truth = read_ground_truth(arguments.annotations);
  std::vector<Detection> detections = read_detections(arguments.detections);
  Evaluation evaluation =
      detection_evaluators()
          .find(arguments.evaluator, "--evaluator")
          .evaluate(truth, detections, {.source = arguments.detections, .per_class = arguments.per_class});
  for (const std::string& note : evaluation.notes) fmt::print("{}\n", note);
  fmt::print("{}", evaluation.table);
  if (!arguments.json.empty()) write_file(arguments.json, std::string_view(evaluation.json));
  return 0;
}

}  // namespace saccade
