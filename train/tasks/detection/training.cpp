// Training of a detector: the data sets, the detector's own loss and the evaluator of a configuration.
#include "core/files/text.h"
#include "train/tasks/detection/detection.h"

#include <algorithm>
#include <unordered_map>

#include "core/distributed/process_group.h"
#include "core/runtime/parallel.h"
#include "data/evaluation/coco/coco_overlap.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/checks/units.h"
#include "data/formats/data_format.h"
#include "data/formats/splits.h"
#include "models/build.h"
#include "train/checkpoints/load_model.h"
#include "train/inference/model_input.h"
#include "train/tasks/detection/evaluate.h"
#include "train/tasks/detection/found_objects.h"
#include "train/tasks/detection/report_pictures.h"
#include "train/tasks/evaluated_training.h"

namespace saccade {
namespace {

constexpr double kPictureThreshold = 0.3;
// For TensorBoard, at each evaluation.
constexpr int64_t kPictures = 4, kPictureSide = 400;

class DetectorTraining final : public EvaluatedTraining {
 public:
  explicit DetectorTraining(const Config& config)
      : EvaluatedTraining(config), metric_options_(metric_options_of(config)) {
    int64_t known = train_set_->num_classes();
    int64_t classes = config.model().num_classes() > 0 ? config.model().num_classes() : known;
    if (classes < known)
      fail_input("model.num_classes: {} for {} in {}, expected at least {}", classes,
                 label_scheme(config) == LabelScheme::kCategoryId
                     ? fmt::format("category ids up to {}", known - 1)
                     : count_of(known, "category", "categories"),
                 train_set_->name(), known);
    if (has_masks(config))
      for (std::string& note : coco::notes_on_masks_to_learn(train_set_->ground_truth(), train_set_->name()))
        notes_.push_back(std::move(note));
    model_ = build_as<Detector>(config, classes);
    check_background(*model_, *train_set_);
    if (!val_set_) return;
    check_categories(*val_set_, category_ids(), class_names(), "the training set");
    settle_masks(metric_options_, *val_set_, notes_);
  }

  Module& model() override { return *model_; }
  std::vector<std::string> describe_data() const override {
    std::vector<std::string> notes = notes_;
    if (config_.data().overfit() == 0) {
      const GroundTruth& truth = train_set_->ground_truth();
      const std::vector<std::string> remarks = remarks_on_classes(truth);  // first, that no image has any
      for (const std::string& remark : remarks)
        notes.push_back(fmt::format(
            "{}: {}: {}", truth.annotations.empty() && &remark == remarks.data() ? "warning" : "note",
            train_set_->name(), remark));
    }
    if (val_set_)
      for (const std::string& remark : remarks_on_metrics(val_set_->ground_truth()))
        notes.push_back(fmt::format("note: {}: {}", val_set_->name(), remark));
    const auto [objects, image] = fullest_image();
    if (const int64_t queries = config_.model().transformer().queries();
        objects > queries && model_types().find(config_.model().type()).reads("transformer"))
      notes.push_back(fmt::format(
          "warning: {} of {} has {}, but the model finds at most {} (model.transformer.queries)",
          image_name(image), train_set_->name(), count_of(objects, "object", "objects"), queries));
    return notes;
  }

  StepImages images_of(const Batch& batch) const override {
    std::vector<int64_t> counts(batch.targets.size());
    parallel_for(std::ssize(counts), 1, [&](int64_t begin, int64_t end) {
      for (auto n = static_cast<size_t>(begin); n < static_cast<size_t>(end); ++n)
        counts[n] = model_->count(batch.targets[n]);
    });
    StepImages images;
    for (size_t n = 0; n < counts.size(); ++n)
      images.add({std::ssize(batch.targets[n].instances), counts[n]});
    return images;
  }
  void prepare(const Batch& batch, uint64_t rng_key) const override {
    for (const Target& target : batch.targets) model_->prepare(target, rng_key);
  }
  TrainingLoss loss(const Batch& batch, const StepImages& step,
                    const std::function<void()>& forward_done) override {
    DetectorInput input = detector_input(batch, normalization_, model_->device());
    input.targets = &batch.targets;
    input.most_objects = batch.most_objects;
    const auto output = call(*model_, input);
    forward_done();
    DetectionLoss loss = model_->loss(*output, batch.targets, step);
    return {loss.total, loss.parts, [metrics = loss.metrics] { return metrics; }, loss.problems};
  }

  std::vector<std::string> primary_metrics() const override {
    std::vector<std::string> names = EvaluatedTraining::primary_metrics();
    if (val_set_ && metric_options_.iou == IouType::kBoth)
      for (const std::string& name : evaluator_.primary) names.push_back(kOfMasks + name);
    return names;
  }
  Metrics evaluate(bool quiet) override {
    evaluation_.quiet = quiet;
    detections_ = detect(*model_, val_set_, category_ids(), evaluation_);
    if (!process_group().is_first()) return {};
    const EvaluatorSpec::Options options{.truth = &val_set_->ground_truth(),
                                         .metric_options = metric_options_};
    const auto evaluator = evaluator_.start(options);
    evaluator->add({.detections = detections_});
    Evaluation evaluation = evaluator->result();
    // Keeps the notes on the annotations: nobody wrote the detections, whose boxes have any shape while the
    // model knows little.
    evaluation_notes_ = std::move(evaluation.notes);
    const std::vector<std::string> told = remarks_on_metrics(val_set_->ground_truth());  // describe_data
    std::erase_if(evaluation_notes_, [&](const std::string& note) {
      return note.starts_with(options.source + ":") || std::ranges::find(told, note) != told.end();
    });
    if (detections_.empty())
      if (const std::string note = note_on_nothing_found(config_); !note.empty())
        evaluation_notes_.push_back(note);
    return with_classes(std::move(evaluation));
  }
  std::vector<std::string> evaluation_notes() const override { return evaluation_notes_; }
  std::vector<std::pair<std::string, Image>> pictures() override {
    const DetectionPictures pictures(*val_set_, detections_, kPictureThreshold);
    std::vector<std::pair<std::string, Image>> drawn;
    const int64_t wanted = std::min(kPictures, val_set_->num_images());
    for (int64_t k = 0; k < wanted; ++k) {
      const int64_t index = k * val_set_->num_images() / wanted;
      if (const auto pair = pictures.truth_beside_found(index, kPictureSide))
        drawn.emplace_back(fmt::format("pictures/{}", val_set_->file_name(index)), *pair);
    }
    return drawn;
  }

 private:
  int64_t most_objects() const override { return std::max<int64_t>(fullest_image().first, 1); }
  // Ids are only meaningful if the list has its own.
  std::string image_name(int64_t id) const {
    const std::vector<ImageInfo>& images = train_set_->ground_truth().images;
    const auto it = std::ranges::find(images, id, &ImageInfo::id);
    return it != images.end() && it->place.file > 0 ? it->file_name : fmt::format("image {}", id);
  }

  // The largest number of objects in a training image, and the id of that image.
  std::pair<int64_t, int64_t> fullest_image() const {
    std::unordered_map<int64_t, int64_t> objects;
    std::pair<int64_t, int64_t> most;
    for (const Annotation& a : train_set_->ground_truth().annotations)
      if (!a.iscrowd)
        if (const int64_t count = ++objects[a.image_id]; count > most.first) most = {count, a.image_id};
    return most;
  }

  MetricOptions metric_options_;
  std::shared_ptr<Detector> model_;
  std::vector<Detection> detections_;  // of the last evaluation
  std::vector<std::string> evaluation_notes_;
};

}  // namespace

std::unique_ptr<TrainingTask> DetectionParts::training(const Config& config) const {
  return std::make_unique<DetectorTraining>(config);
}

}  // namespace saccade
