#include "train/tasks/detection/evaluate.h"

#include <functional>
#include <optional>
#include <utility>

#include "core/files/text.h"
#include "data/evaluation/coco/coco_overlap.h"
#include "data/formats/checks/kept_labels.h"
#include "data/formats/dataset.h"
#include "train/config/options.h"
#include "train/inference/evaluation_data.h"
#include "train/logs/print.h"
#include "train/tasks/detection/detection.h"
#include "train/tasks/detection/found_objects.h"
#include "train/tasks/detection/runner.h"

namespace saccade {

std::vector<Detection> detect(Detector& model, const std::shared_ptr<const Dataset>& dataset,
                              const std::vector<int64_t>& category_ids, const EvaluatorOptions& options) {
  PostprocessOptions post = options.post;
  post.classes = std::ssize(category_ids);
  DetectorRunner runner(model, options.normalization);
  // A batch that was handed to the GPU.
  struct Started {
    std::vector<int64_t> images;
    std::function<BatchDetections()> finish;
  };
  auto start = [&](const Batch& batch) {
    Started started;
    for (const Target& target : batch.targets) started.images.push_back(target.image_id);
    started.finish = model.start_postprocess(*runner.run(batch), batch.targets, post);
    return started;
  };
  auto finish = [&](const Started& started, std::vector<Detection>& to) {
    const BatchDetections results = started.finish();
    for (size_t n = 0; n < results.size(); ++n)
      for (const ImageDetection& d : results[n])
        to.push_back({.image_id = started.images[n],
                      .category_id = category_ids[static_cast<size_t>(d.label)],
                      .bbox = {d.box.x1, d.box.y1, d.box.width(), d.box.height()},
                      .score = d.score,
                      .mask = d.mask});
  };
  if (process_group().alone()) {
    std::vector<Detection> all;
    for_each_started_batch(model, dataset, options, [&](const Batch& batch) {
      return [&, started = start(batch)] { finish(started, all); };
    });
    return all;
  }
  return detections_of(collect_bytes(model, dataset, options, [&](const Batch& batch) {
    std::vector<Detection> found;
    finish(start(batch), found);
    return to_bytes(found);
  }));
}

std::shared_ptr<const Dataset> keep_classes(const std::shared_ptr<const Dataset>& dataset,
                                            const DataPaths& paths, const std::vector<std::string>& names,
                                            std::vector<Detection>& detections) {
  if (names.empty()) return dataset;
  GroundTruth truth = dataset->ground_truth();
  for (const std::string& line : keep_classes(names, truth, detections))
    print_line("note: {}: {}", dataset->name(), line);
  return std::make_shared<Dataset>(dataset->name(), paths.images, std::move(truth), LabelScheme::kContiguous);
}

MetricOptions metric_options_of(const Config& config, MetricOptions asked) {
  const bool both = has_masks(config) && evaluator_of(config).has_masks;
  if (!asked.iou) asked.iou = both ? IouType::kBoth : IouType::kBoxes;
  return asked;
}

void need_predicted_masks(const MetricOptions& metric_options, const LoadedModel& model,
                          const std::string& checkpoint) {
  if (metric_options.iou == IouType::kMasks && !has_masks(model.config))
    fail_input("--iou segm: {} predicts no masks, expected bbox", checkpoint);
}

DataPaths with_masks_of(const MetricOptions& metric_options, DataPaths paths) {
  if (metric_options.iou == IouType::kBoth) return with_masks(std::move(paths));
  paths.wants.masks = metric_options.iou == IouType::kMasks;
  return paths;
}

namespace {

void settle(MetricOptions& metric_options, std::vector<std::string>& notes,
            const std::function<void()>& need) {
  if (metric_options.iou == IouType::kBoxes) return;
  try {
    need();
  } catch (const InputError& error) {
    if (metric_options.iou == IouType::kMasks) throw;
    metric_options.iou = IouType::kBoxes;
    notes.push_back(fmt::format("note: metrics are for boxes only: {}", error.what()));
  }
}

}  // namespace

void settle_masks(MetricOptions& metric_options, const GroundTruth& truth, const std::string& name,
                  std::vector<std::string>& notes) {
  if (!truth.is_annotated) return;
  settle(metric_options, notes, [&] {
    if (const std::string remark = coco::need_masks(truth, name); !remark.empty())
      notes.push_back(fmt::format("note: {}: {}: detections in the box are ignored", name, remark));
  });
}

void settle_masks(MetricOptions& metric_options, const Dataset& set, std::vector<std::string>& notes) {
  settle_masks(metric_options, set.ground_truth(), set.name(), notes);
}

void settle_masks(MetricOptions& metric_options, std::span<const Detection> detections,
                  const std::string& source, std::vector<std::string>& notes) {
  settle(metric_options, notes, [&] { coco::need_masks(detections, source); });
}

Evaluation DetectionParts::evaluate(const EvalArguments& arguments, const LoadedModel& model,
                                    const EvaluatorOptions& options) const {
  if (arguments.annotations.empty() && arguments.data.empty())
    fail_input(
        "--annotations: not given; give --data FOLDER, or --annotations and --images, to say what {} is evaluated on",
        arguments.checkpoint);
  MetricOptions metric_options = metric_options_of(model.config, arguments.metric_options);
  need_predicted_masks(metric_options, model, arguments.checkpoint);
  std::optional<DataPaths> training;
  DataPaths paths = with_masks_of(metric_options, eval_paths(arguments, model, &training));
  check_outputs_of_set({{"--detections", arguments.detections}, {"--json", arguments.json}}, paths);
  paths.may_lack_annotations = true;
  std::vector<std::string> notes;
  auto dataset = open_dataset(paths, LabelScheme::kContiguous, &notes);
  const bool is_annotated = dataset->ground_truth().is_annotated;
  for (const auto& [flag, is_missing] : {std::pair{"--detections: not given", arguments.detections.empty()},
                                         std::pair{"--json: given", !arguments.json.empty()}})
    if (!is_annotated && is_missing)
      fail_input("{}, but {} has no \"annotations\" list, so there are detections but no metrics", flag,
                 dataset->name());
  settle_masks(metric_options, *dataset, notes);
  for (std::string& note : notes_on_judged(*dataset, paths, model, training))
    notes.push_back(std::move(note));
  for (const std::string& note : notes) print_line(note);
  check_categories(*dataset, model.category_ids, model.class_names, arguments.checkpoint);
  check_choice({.only = arguments.classes}, dataset->class_names(), dataset->name());
  std::vector<Detection> detections = detect(model.as<Detector>(), dataset, model.category_ids, options);
  if (detections.empty())
    if (const std::string note = note_on_nothing_found(model.config); !note.empty()) print_line(note);
  dataset = keep_classes(dataset, paths, arguments.classes, detections);
  const GroundTruth& truth = dataset->ground_truth();
  if (!arguments.detections.empty()) write_detections(arguments.detections, detections, &truth);
  if (!is_annotated)
    return {.metrics = {},
            .table =
                fmt::format("{} in {}; no metrics, as {} has no \"annotations\" list\n",
                            count_of(std::ssize(detections), "detection", "detections"),
                            count_of(std::ssize(truth.images), "image", "images"), escaped(dataset->name()))};
  const auto evaluator = evaluator_of(model.config)
                             .start({.truth = &truth,
                                     .source = arguments.checkpoint,
                                     .per_class = arguments.per_class,
                                     .metric_options = metric_options});
  evaluator->add({.detections = std::move(detections)});
  return evaluator->result();
}

}  // namespace saccade
