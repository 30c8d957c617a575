// saccade score: COCO figures of a detection file. Tensors and the model take no part in it.
#include <fmt/format.h>

#include "core/formats/file.h"
#include "core/formats/output_file.h"
#include "core/tensor/error.h"
#include "data/evaluation/coco_eval.h"
#include "train/commands/commands.h"

namespace saccade {

int run_score(const ScoreArguments& arguments) {
  check_output_file(arguments.json);
  CocoGroundTruth truth = read_coco_ground_truth(arguments.annotations);
  std::vector<Detection> detections = read_detections(arguments.detections);
  CocoFigures figures = evaluate_coco(truth, detections, arguments.detections);
  for (const std::string& note : figures.notes) fmt::print("{}\n", note);
  fmt::print("{}", coco_table(figures));
  if (arguments.per_class) fmt::print("\n{}", coco_class_table(figures));
  if (!arguments.json.empty())
    write_file(arguments.json, std::string_view(coco_json(figures, arguments.per_class)));
  return 0;
}

}  // namespace saccade
