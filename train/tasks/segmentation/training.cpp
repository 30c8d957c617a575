// Training of a model of label maps.
#include <algorithm>

#include "core/files/text.h"
#include "core/runtime/parallel.h"
#include "core/tensor/error.h"
#include "data/formats/data_format.h"
#include "data/images/image.h"
#include "data/pages/label_picture.h"
#include "models/build.h"
#include "train/inference/evaluation_data.h"
#include "train/inference/model_input.h"
#include "train/tasks/evaluated_training.h"
#include "train/tasks/segmentation/segmentation.h"

namespace saccade {
namespace {

constexpr int64_t kShownPictures = 4, kShownPictureSide = 480;

class SegmenterTraining final : public EvaluatedTraining {
 public:
  explicit SegmenterTraining(const Config& config) : EvaluatedTraining(config) {
    for (const auto& images : {train_set_, val_set_})
      if (images) check_label_classes(*images);
    if (config.data().sampling() != config::uniform && !train_set_->ground_truth().drawn_labels)
      fail_input(
          "data.sampling: needs the classes of each image, but the label maps of {} show them only when they are read, expected uniform",
          train_set_->name());
    const int64_t known = train_set_->num_classes();
    const int64_t classes = config.model().num_classes() > 0 ? config.model().num_classes() : known;
    if (classes < known)
      fail_input("model.num_classes: {} for {} in {}, expected at least {}", classes,
                 count_of(known, "class", "classes"), train_set_->name(), known);
    model_ = build_as<Segmenter>(config, classes);
    if (val_set_) check_categories(*val_set_, category_ids(), class_names(), "the training set");
  }

  Module& model() override { return *model_; }
  // An image adds to the divisor of the loss the number of its pixels with padding, or of those with a class.
  StepImages images_of(const Batch& batch) const override {
    StepImages images;
    for (const Target& target : batch.targets) {
      int64_t count = batch.images.dim(1) * batch.images.dim(2);
      if (config_.criterion().mean_over_labelled())
        count = target.label_map
                    ? std::ranges::count_if(target.label_map->values,
                                            [](uint16_t label) { return label != LabelMap::kIgnored; })
                    : 0;
      images.add({0, count});
    }
    return images;
  }
  TrainingLoss loss(const Batch& batch, const StepImages& step,
                    const std::function<void()>& forward_done) override {
    const SegmenterOutput output = call(*model_, normalized_images(batch, normalization_, model_->device()));
    forward_done();
    const SegmentationLoss loss = model_->loss(output, label_tensor(batch, model_->device()),
                                               std::max(1.0, static_cast<double>(step.counted())));
    return {loss.total, loss.parts};
  }

  Metrics evaluate(bool quiet) override {
    evaluation_.quiet = quiet;
    pictures_.clear();
    const int64_t count = val_set_->num_images(), wanted = std::min(kShownPictures, count);
    const SeenLabels keep = [&](int64_t index, const LabelMap& truth, const LabelMap& found) {
      for (int64_t k = 0; k < wanted; ++k)
        if (index == k * count / wanted) pictures_.push_back({index, truth, found});
    };
    return with_classes(
        evaluate_segmenter(*model_, config_, category_ids(), val_set_, evaluator_, evaluation_, false, keep));
  }
  std::vector<std::pair<std::string, Image>> pictures() override {
    std::vector<std::pair<std::string, Image>> drawn;
    for (const Shown& shown : pictures_)
      if (const std::optional<Image> image = open_picture(*val_set_, shown.index))
        drawn.emplace_back("pictures/" + val_set_->file_name(shown.index),
                           labels_beside_each_other(*image, shown.truth, shown.found, val_set_->class_names(),
                                                    kShownPictureSide));
    return drawn;
  }

 private:
  struct Shown {
    int64_t index;
    LabelMap truth, found;
  };

  std::shared_ptr<Segmenter> model_;
  std::vector<Shown> pictures_;  // of the last evaluation
};

}  // namespace

Tensor label_tensor(const Batch& batch, Device device) {
  const int64_t N = batch.images.dim(0), H = batch.images.dim(1), W = batch.images.dim(2);
  std::vector<int64_t> labels(static_cast<size_t>(N * H * W), -1);
  for (int64_t n = 0; n < N; ++n) {
    const auto& map = batch.targets[static_cast<size_t>(n)].label_map;
    if (!map) continue;  // in a trial batch
    SACCADE_CHECK(map->size.height <= H && map->size.width <= W,
                  "[label_tensor] labels of {} x {} in {} x {} pixels", map->size.width, map->size.height, W,
                  H);
    parallel_for(map->size.height, 64, [&](int64_t begin, int64_t end) {
      for (int64_t y = begin; y < end; ++y)
        for (int64_t x = 0; x < map->size.width; ++x)
          if (const uint16_t label = map->values[static_cast<size_t>(y * map->size.width + x)];
              label != LabelMap::kIgnored)
            labels[static_cast<size_t>((n * H + y) * W + x)] = label;
    });
  }
  return Tensor::from<int64_t>({N, H, W}, labels, device);
}

std::unique_ptr<TrainingTask> SegmentationParts::training(const Config& config) const {
  return std::make_unique<SegmenterTraining>(config);
}

}  // namespace saccade
