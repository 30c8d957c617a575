// Inference of libsaccade: one loaded model for any number of threads.
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/runtime/cpu/thread_team.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/device_choice.h"
#include "train/commands/predict_files.h"
#include "train/config/options.h"
#include "train/inference/evaluation.h"
#include "train/inference/runner.h"
#include "train/library/boundary.h"
#include "train/library/saccade.hpp"

namespace saccade {

namespace {

Image image_of(const Pixels& pixels) {
  const bool is_grey = pixels.order == PixelOrder::kGreyscale;
  if (!is_grey && pixels.order != PixelOrder::kRgb && pixels.order != PixelOrder::kBgr)
    fail_input("pixels: order {}, expected RGB, BGR or grey", static_cast<int>(pixels.order));
  if (!pixels.data) fail_input("pixels: no data");
  if (pixels.height < 1 || pixels.width < 1)
    fail_input("pixels: {} x {} (width x height), expected at least 1 x 1", pixels.width, pixels.height);
  Image image(pixels.height, pixels.width);  // refuses other sizes
  const int64_t row_bytes = pixels.width * (is_grey ? 1 : 3);
  const int64_t stride = pixels.stride == 0 ? row_bytes : pixels.stride;
  if (stride < row_bytes)
    fail_input("pixels: stride {}, expected at least the {} bytes of a row", stride, row_bytes);
  if (stride > INT64_MAX / pixels.height)
    fail_input("pixels: stride {}: {} rows of it are more bytes than there can be", stride, pixels.height);
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* from = pixels.data + y * stride;
    uint8_t* to = image.row(y);
    if (pixels.order == PixelOrder::kRgb) {
      std::copy_n(from, row_bytes, to);
      continue;
    }
    for (int64_t x = 0; x < image.width; ++x)
      for (int64_t c = 0; c < 3; ++c) to[x * 3 + c] = is_grey ? from[x] : from[x * 3 + 2 - c];
  }
  return image;
}

}  // namespace

class Model::Impl {
 public:
  Impl(const std::string& checkpoint, const std::string& device)
      : checkpoint_(checkpoint),
        device_(choose_device(device).device),
        loaded_(load(checkpoint, device_)),
        precision_(precision_of(loaded_->config)),
        post_(postprocess_options(loaded_->config, std::ssize(loaded_->class_names))) {
    const kernels::ImageNormalization normalization = image_normalization(loaded_->config);
    if (is_detector())
      detector_runner_.emplace(loaded_->as<Detector>(), normalization);
    else
      classifier_runner_.emplace(loaded_->as<Classifier>(), normalization);
  }
  ~Impl() {
    const auto turn = gpu_turn(device_);
    detector_runner_.reset();
    classifier_runner_.reset();
    loaded_.reset();
  }

  const LoadedModel& loaded() const { return *loaded_; }
  bool is_detector() const { return loaded_->task == "detection"; }
  bool is_on_gpu() const { return device_ != Device::kCpu; }

  std::vector<std::vector<Prediction>> predict(std::vector<Image> images, double threshold) const {
    if (images.empty()) return {};
    if (!(threshold >= 0 && threshold <= 1)) fail_input("threshold: {}, expected 0 to 1", threshold);
    const PredictInput unnamed{.path = "pixels", .name = "", .picture = ""};
    std::vector<LoadedInput> inputs;
    for (Image& image : images) inputs.push_back({&unnamed, std::move(image)});
    start_threads();
    const Batch batch = batch_of(inputs, loaded_->config);  // of several calls at a time
    const ComputeScope compute(device_);
    const NoGrad no_grad;  // and the state of the caller's thread comes back
    set_precision(precision_);
    std::vector<std::vector<Prediction>> found;
    with_model_of(checkpoint_, eval_size(loaded_->config), "in a call",
                  [&] { found = is_detector() ? boxes(batch, threshold) : classes(batch, threshold); });
    return found;
  }

 private:
  static LoadedModel load(const std::string& checkpoint, Device device) {
    const ComputeScope compute(device);
    return load_trained_model(checkpoint, device);
  }

  std::vector<std::vector<Prediction>> boxes(const Batch& batch, double threshold) const {
    auto& detector = loaded_->as<Detector>();
    std::vector<std::vector<Prediction>> found;
    for (const auto& image : detector.postprocess(*detector_runner_->run(batch), batch.targets, post_)) {
      auto& predictions = found.emplace_back();
      for (const ImageDetection& d : image)
        if (d.score >= threshold)
          predictions.push_back({static_cast<int>(d.label), d.score, d.box.x1, d.box.y1, d.box.x2, d.box.y2});
    }
    return found;
  }

  std::vector<std::vector<Prediction>> classes(const Batch& batch, double threshold) const {
    const std::vector<float> logits = classifier_runner_->run(batch);
    const size_t K = logits.size() / batch.targets.size();
    std::vector<std::vector<Prediction>> found;
    for (size_t n = 0; n < batch.targets.size(); ++n) {
      const Target& target = batch.targets[n];
      const float* row = &logits[n * K];
      const double largest = *std::max_element(row, row + K);
      double sum = 0;
      for (size_t k = 0; k < K; ++k) sum += std::exp(row[k] - largest);
      auto& predictions = found.emplace_back();
      for (size_t k = 0; k < K; ++k)
        if (const double score = std::exp(row[k] - largest) / sum; score >= threshold)
          predictions.push_back({static_cast<int>(k), score, 0, 0, static_cast<double>(target.original_width),
                                 static_cast<double>(target.original_height)});
      std::ranges::stable_sort(predictions, std::ranges::greater{}, &Prediction::score);
    }
    return found;
  }

  std::string checkpoint_;
  Device device_;
  std::optional<LoadedModel> loaded_;
  // One of the two; what they keep between calls belongs to who has the GPU.
  mutable std::optional<DetectorRunner> detector_runner_;
  mutable std::optional<ClassifierRunner> classifier_runner_;
  Precision precision_;
  PostprocessOptions post_;
};

Model::Model(const std::string& checkpoint, const std::string& device)
    : impl_(with_standard_errors([&] { return std::make_unique<Impl>(checkpoint, device); })) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

bool Model::is_detector() const { return impl_->is_detector(); }
bool Model::is_on_gpu() const { return impl_->is_on_gpu(); }
const std::vector<std::string>& Model::class_names() const { return impl_->loaded().class_names; }
const std::vector<int64_t>& Model::category_ids() const { return impl_->loaded().category_ids; }

std::vector<Prediction> Model::predict(const Pixels& image, double threshold) const {
  return predict(std::vector{image}, threshold).front();
}

std::vector<std::vector<Prediction>> Model::predict(const std::vector<Pixels>& images,
                                                    double threshold) const {
  return with_standard_errors([&] {
    std::vector<Image> copies;
    for (const Pixels& pixels : images) copies.push_back(image_of(pixels));
    return impl_->predict(std::move(copies), threshold);
  });
}

std::vector<Prediction> Model::predict_file(const std::string& path, double threshold) const {
  return with_standard_errors([&] {
    std::vector<Image> image;
    image.push_back(read_image(path));
    return impl_->predict(std::move(image), threshold).front();
  });
}

std::string library_version() { return SACCADE_VERSION; }

void set_library_threads(int count) {
  with_standard_errors([&] {
    if (count < 1 || count > max_threads()) fail_input("threads: {}, expected 1 to {}", count, max_threads());
    set_thread_count(count);
  });
}

}  // namespace saccade
