// Runs a model of label maps over images.
#include <algorithm>
#include <unordered_map>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/evaluation/label_counts.h"
#include "train/config/options.h"
#include "train/inference/evaluation_data.h"
#include "train/tasks/segmentation/runner.h"
#include "train/tasks/segmentation/segmentation.h"

namespace saccade {
namespace {

// Only the images, for loaders whose label maps come from elsewhere.
std::shared_ptr<const Dataset> without_labels(const Dataset& images) {
  GroundTruth truth = images.ground_truth();
  truth.drawn_labels.reset();
  truth.annotations.clear();
  std::string folder;
  for (int64_t i = 0; i < images.num_images(); ++i) {
    const std::string path = images.image_path(i), &name = images.file_name(i);
    if (folder.empty() && path.size() > name.size() && path.ends_with("/" + name))
      folder = path.substr(0, path.size() - name.size() - 1);
    truth.images[static_cast<size_t>(i)].label_file.clear();
  }
  return std::make_shared<Dataset>(images.name(), folder, std::move(truth), LabelScheme::kContiguous);
}

// The same images at further sizes: loaders that run in step with that of the evaluation.
class OtherViews {
 public:
  OtherViews(const std::shared_ptr<const Dataset>& images, std::span<const Config> views,
             const EvaluatorOptions& options) {
    // An image that is left out because of its label map is left out of all views.
    const bool skips = options.loader.bad_images == BadImages::kLeaveOut;
    const auto alone = views.empty() || skips ? images : without_labels(*images);
    for (const Config& view : views) {
      LoaderOptions loader = options.loader;
      loader.label_maps = LabelMapsOf::kFile;
      loader.augment = eval_augment(view);
      loader.rank = process_group().rank();
      loader.ranks = process_group().size();
      loader.sharing = Sharing::kTurns;
      loaders_.push_back(std::make_unique<DataLoader>(alone, std::move(loader)));
    }
  }
  void add_to(std::vector<Batch>& views) {
    for (const auto& loader : loaders_) {
      std::optional<Batch> batch;
      do batch = loader->next();
      while (batch && batch->targets.empty());  // as the evaluation skips them
      const auto id = [](const Target& target) { return target.image_id; };
      SACCADE_CHECK(batch && std::ranges::equal(batch->targets, views[0].targets, {}, id, id),
                    "[evaluate] views out of step");
      views.push_back(std::move(*batch));
    }
  }

 private:
  std::vector<std::unique_ptr<DataLoader>> loaders_;
};

// Maps the model's labels to those of a data set, which may have further classes between them.
class LabelsInSet {
 public:
  LabelsInSet(const std::vector<int64_t>& category_ids, const Dataset& images) {
    for (const int64_t id : category_ids) labels_.push_back(static_cast<uint16_t>(images.class_of(id)));
    for (size_t k = 0; k < labels_.size(); ++k) are_same_ = are_same_ && labels_[k] == k;
  }
  void apply(LabelMap& found) const {
    if (are_same_) return;
    for (uint16_t& label : found.values) label = labels_[label];
  }

 private:
  std::vector<uint16_t> labels_;
  bool are_same_ = true;
};

}  // namespace

Evaluation evaluate_segmenter(Segmenter& model, const Config& config,
                              const std::vector<int64_t>& category_ids,
                              const std::shared_ptr<const Dataset>& images, const EvaluatorSpec& spec,
                              const EvaluatorOptions& options, bool per_class, const SeenLabels& seen) {
  check_label_classes(*images);
  SegmenterRunner runner(model, config, std::ssize(category_ids));
  const LabelsInSet labels(category_ids, *images);
  OtherViews others(images, std::span(runner.views()).subspan(1), options);
  std::unordered_map<int64_t, int64_t> places;
  for (int64_t i = 0; i < images->num_images(); ++i) places.emplace(images->image_id(i), i);
  EvaluatorOptions first = options;
  first.loader.label_maps = LabelMapsOf::kFile;
  first.loader.augment = eval_augment(runner.views()[0]);
  const EvaluatorSpec::Options evaluator_options{.truth = &images->ground_truth(), .per_class = per_class};
  return evaluate_batches(
      model, images, first, spec, evaluator_options, [&](const Batch& batch, Evaluator& to) {
        std::vector<Batch> views{batch};
        others.add_to(views);
        return [&, &evaluator = to, finish = runner.start(std::move(views)), targets = batch.targets] {
          std::vector<LabelMap> found = finish();
          for (size_t n = 0; n < found.size(); ++n) {
            labels.apply(found[n]);
            const int64_t index = places.at(targets[n].image_id);
            const LabelMap& truth = *targets[n].label_map;
            SACCADE_CHECK(truth.size == found[n].size, "[evaluate] labels of another size");
            evaluator.add({.labels = found[n].values, .true_labels = truth.values});
            if (seen) seen(index, truth, found[n]);
          }
        };
      });
}

void check_label_classes(const Dataset& images) {
  if (images.num_classes() > LabelCounts::kMaxClasses)
    fail_input("{}: {} of pixels, expected at most {}", images.name(),
               count_of(images.num_classes(), "class", "classes"), LabelCounts::kMaxClasses);
  for (int64_t i = 0; i < images.num_images(); ++i) {
    try {
      const std::vector<uint16_t> labels = images.label_map_of(i, images.size_of(i)).values;
      if (std::ranges::any_of(labels, [](uint16_t label) { return label != LabelMap::kIgnored; })) return;
    } catch (const InputError&) {  // reported when it is read
      return;
    }
  }
  fail_input(
      "{}: no pixel of its {} has a class: all have values that are ignored (data.label_maps) or classes that are left out",
      images.name(), count_of(images.num_images(), "label map", "label maps"));
}

void refuse_metric_options(const MetricOptions& metric_options, const std::vector<std::string>& classes,
                           const std::string& model) {
  if (const std::string flags = metric_options.given_flags(); !flags.empty())
    fail_input("{}: {} predicts label maps, which have no detections", flags, model);
  if (!classes.empty())
    fail_input(
        "--classes: {} predicts label maps, which are scored on all pixels; --per-class shows each class",
        model);
}

Evaluation SegmentationParts::evaluate(const EvalArguments& arguments, const LoadedModel& model,
                                       const EvaluatorOptions& options) const {
  if (!arguments.detections.empty())
    fail_input("--detections: {} predicts label maps; saccade predict writes them", arguments.checkpoint);
  refuse_metric_options(arguments.metric_options, arguments.classes, arguments.checkpoint);
  if (arguments.data.empty() && arguments.annotations.empty())
    fail_input(
        "--annotations: not given; give --data FOLDER, or --annotations (the label maps) and --images");
  std::optional<DataPaths> training;
  const DataPaths paths = eval_paths(arguments, model, &training);
  const auto images = open_judged(paths, model, training);
  check_categories(*images, model.category_ids, model.class_names, arguments.checkpoint);
  return evaluate_segmenter(model.as<Segmenter>(), model.config, model.category_ids, images,
                            evaluator_of(model.config), options, arguments.per_class);
}

}  // namespace saccade
