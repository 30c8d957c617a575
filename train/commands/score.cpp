// saccade score: computes the metrics of a detection file. It needs neither tensors nor a model, except for
// the classes of a checkpoint.
#include <fmt/ranges.h>

#include <unordered_set>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/evaluation/detections.h"
#include "data/evaluation/evaluators.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/checks/kept_labels.h"
#include "data/formats/checks/units.h"
#include "data/formats/data_format.h"
#include "data/formats/listing.h"
#include "data/formats/splits.h"
#include "train/checkpoints/checkpoint.h"
#include "train/commands/commands.h"
#include "train/commands/data/sources.h"
#include "train/config/options.h"
#include "train/config/task.h"
#include "train/inference/evaluation_data.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"
#include "train/tasks/detection/evaluate.h"

namespace saccade {
namespace {

bool is_of_format(const DataPaths& paths, const char* name) {
  if (!paths.format.empty()) return paths.format == name;
  const auto recognises = data_formats().find(name).recognises;
  return recognises != nullptr && recognises(paths);
}

// Only the classes, and the configuration.
LoadedModel classes_of(const std::string& checkpoint) {
  const CheckpointInfo saved = read_checkpoint_info(SafetensorsReader(checkpoint));
  LoadedModel model;
  model.config = parse_config(saved.config, checkpoint + ": its configuration");
  model.class_names = saved.class_names;
  model.category_ids = saved.category_ids;
  if (!task_of(model.config).needs(model.config).boxes ||
      model.class_names.size() != model.category_ids.size())
    fail_input("{}: finds no objects, expected a detector with the annotations' classes", checkpoint);
  return model;
}

// The split of the folder, with the classes that a training on it would have.
DataPaths split_paths(const ScoreArguments& arguments, const LoadedModel& model, const ClassChoice& choice) {
  const DataSplits splits =
      united_splits(arguments.data, arguments.annotations, arguments.images,
                    arguments.checkpoint.empty() ? PlaceOptions{} : place_options(model.config));
  const auto& split = split_called(splits, arguments.split);
  if (!split)
    fail_input("{}: has no {} images{}", fmt::join(arguments.data, " + "), arguments.split,
               arguments.checkpoint.empty() && arguments.split == "val"
                   ? "; if training drew its own, --checkpoint says which"
                   : "");
  DataPaths paths = *split;
  if (arguments.checkpoint.empty() && arguments.split == "train" && !splits.val)
    print_line(
        "note: {}: has no validation images; if training drew some of these, --checkpoint leaves them out",
        fmt::join(arguments.data, " + "));
  // COCO's lists have their own ids; in other formats the training set numbers the classes.
  if (arguments.checkpoint.empty() && paths.format != "coco" && splits.train && arguments.split != "train") {
    DataPaths training = *splits.train;
    training.choice = choice;
    paths.categories = read_ground_truth(training).categories;
  }
  return paths;
}

// metric_options: completed to the metrics that are computed
DataPaths scored_paths(const ScoreArguments& arguments, MetricOptions& metric_options) {
  if (arguments.data.empty() && arguments.annotations.empty())
    fail_input(
        "--annotations: not given; give --data FOLDER, or --annotations FILE, to compare the detections with");
  LoadedModel model;
  if (!arguments.checkpoint.empty()) model = classes_of(arguments.checkpoint);
  set_classes(model.config, arguments.set);
  const ClassChoice choice = class_choice(model.config);
  DataPaths paths{.annotations = arguments.annotations, .images = arguments.images};
  if (!arguments.data.empty()) {
    paths = split_paths(arguments, model, choice);
  } else if (is_of_format(paths, "yolo") && paths.images.empty()) {
    fail_input(
        "--images: not given, expected the folder of the images of the detections, as {} may name those of several splits; or "
        "--data and --split",
        arguments.annotations);
  } else if (arguments.checkpoint.empty() && (is_of_format(paths, "csv") || is_of_format(paths, "voc"))) {
    print_line(
        "note: {}: its classes are numbered from its own names; if the detections do not name their category, --checkpoint or "
        "--data gives the numbers used in training",
        arguments.annotations);
  }
  if (!arguments.checkpoint.empty()) {
    if (has_several_sets(model.config)) paths = known_by_names(paths);
    paths.categories = categories_of(model);
  }
  paths.choice = choice;
  paths.look_at_images = false;
  if (!arguments.checkpoint.empty() && evaluators("detection").find(arguments.evaluator).has_masks)
    metric_options = metric_options_of(model.config, metric_options);
  if (!metric_options.iou) metric_options.iou = IouType::kBoxes;
  return with_masks_of(metric_options, std::move(paths));
}

// Notes that at least half of the labelled images have no detections, as with the list of a split, while the
// metrics count all images; otherwise empty.
std::string note_on_missing(const std::string& name, const GroundTruth& truth,
                            const std::vector<Detection>& detections) {
  std::unordered_set<int64_t> labelled, seen;
  for (const Annotation& a : truth.annotations) labelled.insert(a.image_id);
  const Detection* last = nullptr;  // most lists hold the detections of an image in sequence
  for (const Detection& d : detections) {
    if ((last == nullptr || last->image_id != d.image_id) && labelled.contains(d.image_id))
      seen.insert(d.image_id);
    last = &d;
  }
  if (labelled.empty() || 2 * seen.size() > labelled.size()) return "";
  return fmt::format(
      "note: {}: has no detections for {} of the {} with labels, whose objects count as missed; if "
      "eval wrote it for images that training drew, use --data and --checkpoint",
      name, labelled.size() - seen.size(), count_of(std::ssize(labelled), "image", "images"));
}

}  // namespace

int run_score(const ScoreArguments& arguments) {
  check_outputs({{"--json", arguments.json}}, {{"--annotations", arguments.annotations},
                                               {"--detections", arguments.detections},
                                               {"--checkpoint", arguments.checkpoint}});
  const NamedFile json(arguments.json);
  if (!arguments.images.empty() && !is_folder(arguments.images))
    fail_input("--images: {}: no such folder", arguments.images);
  const EvaluatorSpec& spec = evaluators("detection").find(arguments.evaluator, "--evaluator");
  MetricOptions metric_options = arguments.metric_options;
  const DataPaths paths = scored_paths(arguments, metric_options);
  check_outputs_of_set({{"--json", arguments.json}}, paths);
  GroundTruth truth = read_ground_truth(paths);
  if (const auto conflicts = category_conflicts(paths.categories, truth.categories, "the model");
      !conflicts.empty())
    fail_input("{}: {}; expected a data set with the same categories", paths.annotations, conflicts[0]);
  std::vector<std::string> classes, notes;
  settle_masks(metric_options, truth, paths.annotations, notes);
  for (const Category& c : truth.categories) classes.push_back(c.name);
  check_choice({.only = arguments.classes}, classes, paths.annotations);
  std::vector<Detection> detections = read_detections(arguments.detections, &truth, &notes,
                                                      metric_options.iou != IouType::kBoxes, paths.choice);
  settle_masks(metric_options, detections, arguments.detections, notes);
  for (const std::string& line : keep_classes(arguments.classes, truth, detections))
    notes.push_back(fmt::format("note: {}: {}", paths.annotations, line));
  if (const std::string note = note_on_missing(arguments.detections, truth, detections); !note.empty())
    notes.push_back(note);
  const auto evaluator = spec.start({.truth = &truth,
                                     .source = arguments.detections,
                                     .per_class = arguments.per_class,
                                     .metric_options = metric_options});
  evaluator->add({.detections = std::move(detections)});
  const Evaluation evaluation = evaluator->result();
  if (const std::string parts = boxes_that_are_parts(truth); !parts.empty())
    print_line("warning: {}", named_note(parts, paths));
  for (const std::string& note : notes_on_boxes(truth)) print_line("note: {}", named_note(note, paths));
  for (const std::string& note : notes) print_line(note);
  for (const std::string& note : evaluation.notes) print_line(note);
  print_text(evaluation.table);
  json.write(evaluation.json);
  return 0;
}

}  // namespace saccade
