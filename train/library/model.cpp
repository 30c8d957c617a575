// Inference in libsaccade: one loaded model for any number of threads.
#include <algorithm>
#include <memory>
#include <optional>

#include "core/runtime/cpu/thread_team.h"
#include "train/checkpoints/load_model.h"
#include "train/config/options.h"
#include "train/config/task.h"
#include "train/inference/answerer.h"
#include "train/inference/device_choice.h"
#include "train/inference/picture_files.h"
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
  Image image(pixels.height, pixels.width);  // throws for other sizes
  const int64_t row_bytes = pixels.width * (is_grey ? 1 : 3);
  const int64_t stride = pixels.stride == 0 ? row_bytes : pixels.stride;
  if (stride < row_bytes)
    fail_input("pixels: stride {}, expected at least the {} bytes of a row", stride, row_bytes);
  if (stride > INT64_MAX / pixels.height)
    fail_input("pixels: stride {}, too large for {} rows", stride, pixels.height);
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

std::vector<Image> images_of(const std::vector<Pixels>& images) {
  std::vector<Image> copies;
  for (const Pixels& pixels : images) copies.push_back(image_of(pixels));
  return copies;
}

std::vector<Image> image_of_file(const std::string& path) {
  std::vector<Image> image;
  image.push_back(read_image(path));
  return image;
}

Image image_of(const EncodedImage& image, size_t place) {
  const std::string name = image.name.empty() ? fmt::format("image {}", place) : image.name;
  if (!image.data) fail_input("{}: no data, expected the bytes of an image", name);
  return decode_image({image.data, image.size}, name);
}

DecodedImage decoded(Image image) { return {image.width, image.height, std::move(image.rgb)}; }

std::vector<Prediction> without_masks(const std::vector<MaskedPrediction>& found) {
  return {found.begin(), found.end()};
}

}  // namespace

class Model::Impl {
 public:
  Impl(const std::string& checkpoint, const std::string& device)
      : checkpoint_(checkpoint),
        device_(choose_device(device).device),
        loaded_(load(checkpoint, device_)),
        precision_(precision_of(loaded_->config)),
        inference_(task_of(loaded_->config).inferencer(*loaded_)) {}
  ~Impl() {
    const GpuTurn turn(device_);
    inference_.reset();
    loaded_.reset();
  }

  const LoadedModel& loaded() const { return *loaded_; }
  bool is_detector() const { return task_of(loaded_->config).needs(loaded_->config).boxes; }
  bool predicts_masks() const {
    const Contents needed = task_of(loaded_->config).needs(loaded_->config);
    return needed.masks || needed.label_maps;
  }
  bool is_on_gpu() const { return device_ != Device::kCpu; }

  std::vector<std::vector<MaskedPrediction>> predict(std::vector<Image> images, double threshold) const {
    if (images.empty()) return {};
    if (!(threshold >= 0 && threshold <= 1)) fail_input("threshold: {}, expected 0 to 1", threshold);
    std::vector<std::vector<MaskedPrediction>> predictions;
    for (const std::vector<Instance>& image : run(std::move(images))) {
      predictions.emplace_back();
      for (const Instance& i : image) {
        if (i.score < threshold) continue;
        MaskedPrediction& p = predictions.back().emplace_back();
        static_cast<Prediction&>(p) = {
            static_cast<int>(i.label), i.score, i.box.x1, i.box.y1, i.box.x2, i.box.y2};
        if (i.mask) p.mask = {i.mask->size().width, i.mask->size().height, i.mask->counts()};
      }
    }
    return predictions;
  }

  std::vector<int32_t> segment(Image image) const {
    if (!task_of(loaded_->config).needs(loaded_->config).label_maps)
      fail_input("{}: predicts no pixel classes, expected a segmentation model", checkpoint_);
    const int64_t width = image.width;
    std::vector<int32_t> labels(static_cast<size_t>(image.height * width));
    std::vector<Image> images;
    images.push_back(std::move(image));
    const std::vector<std::vector<Instance>> found = run(std::move(images));  // must live as long as the loop
    for (const Instance& i : found.front())
      for (const Mask::Run& run : i.mask->runs())
        for (int64_t p = run.begin; p < run.end; ++p)  // column by column
          labels[static_cast<size_t>(p % i.mask->size().height * width + p / i.mask->size().height)] =
              static_cast<int32_t>(i.label);
    return labels;
  }

 private:
  std::vector<std::vector<Instance>> run(std::vector<Image> images) const {
    const PredictInput unnamed{.path = "pixels", .name = "", .picture = ""};
    std::vector<LoadedInput> inputs;
    for (Image& image : images) inputs.push_back({&unnamed, std::move(image)});
    start_threads();
    const Batch batch = batch_of(inputs, loaded_->config);  // several calls may do this at the same time
    const ComputeScope compute(device_);
    const NoGrad no_grad;  // and restores the state of the caller's thread
    set_precision(precision_);
    std::vector<std::vector<Instance>> found;
    with_model_of(checkpoint_, eval_size(loaded_->config), "in a call",
                  [&] { found = inference_->run(batch); });
    return found;
  }
  static LoadedModel load(const std::string& checkpoint, Device device) {
    const ComputeScope compute(device);
    return load_trained_model(checkpoint, device);
  }

  std::string checkpoint_;
  Device device_;
  std::optional<LoadedModel> loaded_;
  Precision precision_;
  std::unique_ptr<Inferencer> inference_;  // what it keeps between calls belongs to the GPU's holder
};

Model::Model(const std::string& checkpoint, const std::string& device)
    : impl_(with_standard_errors([&] { return std::make_unique<Impl>(checkpoint, device); })) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

bool Model::is_detector() const { return impl_->is_detector(); }
const std::string& Model::task() const { return task_name(impl_->loaded().config); }
bool Model::predicts_masks() const { return impl_->predicts_masks(); }
int64_t Model::image_height() const { return eval_size(impl_->loaded().config).height; }
int64_t Model::image_width() const { return eval_size(impl_->loaded().config).width; }
bool Model::keeps_image_form() const { return impl_->loaded().config.data().val_height() == 0; }
bool Model::is_on_gpu() const { return impl_->is_on_gpu(); }
const std::vector<std::string>& Model::class_names() const { return impl_->loaded().class_names; }
const std::vector<int64_t>& Model::category_ids() const { return impl_->loaded().category_ids; }

std::vector<Prediction> Model::predict(const Pixels& image, double threshold) const {
  return predict(std::vector{image}, threshold).front();
}

std::vector<std::vector<Prediction>> Model::predict(const std::vector<Pixels>& images,
                                                    double threshold) const {
  return with_standard_errors([&] {
    std::vector<std::vector<Prediction>> predictions;
    for (const auto& image : impl_->predict(images_of(images), threshold))
      predictions.push_back(without_masks(image));
    return predictions;
  });
}

std::vector<int32_t> Model::segment(const Pixels& image) const {
  return with_standard_errors([&] { return impl_->segment(image_of(image)); });
}

std::vector<Prediction> Model::predict_file(const std::string& path, double threshold) const {
  return with_standard_errors(
      [&] { return without_masks(impl_->predict(image_of_file(path), threshold).front()); });
}

std::vector<std::vector<MaskedPrediction>> Model::predict_masks(const std::vector<Pixels>& images,
                                                                double threshold) const {
  return with_standard_errors([&] { return impl_->predict(images_of(images), threshold); });
}

std::vector<MaskedPrediction> Model::predict_masks_of_file(const std::string& path, double threshold) const {
  return with_standard_errors([&] { return impl_->predict(image_of_file(path), threshold).front(); });
}

std::vector<std::vector<MaskedPrediction>> Model::predict_encoded(const std::vector<EncodedImage>& images,
                                                                  double threshold) const {
  return with_standard_errors([&] {
    std::vector<Image> pixels;
    for (const EncodedImage& image : images) pixels.push_back(image_of(image, pixels.size()));
    return impl_->predict(std::move(pixels), threshold);
  });
}

DecodedImage decode_pixels(const EncodedImage& image) {
  return with_standard_errors([&] { return decoded(image_of(image, 0)); });
}

DecodedImage read_pixels(const std::string& path) {
  return with_standard_errors([&] { return decoded(read_image(path)); });
}

std::vector<uint8_t> PixelMask::pixels() const {
  return with_standard_errors([&] {
    if (width == 0 && height == 0 && counts.empty()) return std::vector<uint8_t>();
    const std::vector<int64_t> runs(counts.begin(), counts.end());
    std::vector<uint8_t> set = Mask::from_counts({height, width}, runs).bitmap();
    for (uint8_t& pixel : set) pixel = pixel ? 255 : 0;
    return set;
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
