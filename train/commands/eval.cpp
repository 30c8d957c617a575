// saccade eval: the COCO figures of a checkpoint on a data set.
#include <fmt/format.h>

#include "core/error.h"
#include "data/coco_eval.h"
#include "train/commands/commands.h"
#include "train/device_choice.h"
#include "train/evaluator.h"
#include "train/load_detector.h"
#include "train/output_file.h"

namespace saccade {

int run_eval(const EvalArguments& arguments) {
  check_output_file(arguments.detections);
  choose_device(arguments.device);
  LoadedDetector detector = load_detector(arguments.checkpoint);
  auto dataset =
      std::make_shared<const CocoDataset>(CocoDataset::load(arguments.annotations, arguments.images));
  check_categories(*dataset, detector.category_ids, detector.class_names, arguments.checkpoint);
  EvaluatorOptions options = evaluator_options(detector.config, arguments.batch_size);
  std::vector<Detection> detections = detect(*detector.model, dataset, detector.category_ids, options);
  CocoFigures figures = evaluate_coco(ground_truth_of(*dataset), detections, arguments.checkpoint);
  for (const std::string& note : figures.notes) fmt::print("{}\n", note);
  fmt::print("{}", coco_table(figures));
  if (!arguments.detections.empty()) write_detections(arguments.detections, detections);
  return 0;
}

}  // namespace saccade
