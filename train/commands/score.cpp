// saccade score: the metrics of a detection file. It needs neither tensors nor a model.
#include "core/files/output_file.h"
#include "core/tensor/error.h"
#include "data/evaluation/evaluators.h"
#include "data/formats/data_format.h"
#include "train/commands/commands.h"
#include "train/logs/print.h"

namespace saccade {

int run_score(const ScoreArguments& arguments) {
  check_outputs({{"--json", arguments.json}},
                {{"--annotations", arguments.annotations}, {"--detections", arguments.detections}});
  GroundTruth truth = read_ground_truth({arguments.annotations, ""});
  std::vector<Detection> detections = read_detections(arguments.detections, &truth);
  Evaluation evaluation =
      detection_evaluators()
          .find(arguments.evaluator, "--evaluator")
          .evaluate(truth, detections, {.source = arguments.detections, .per_class = arguments.per_class});
  for (const std::string& note : evaluation.notes) print_line(note);
  print_text(evaluation.table);
  if (!arguments.json.empty()) write_file(arguments.json, std::string_view(evaluation.json));
  return 0;
}

}  // namespace saccade
