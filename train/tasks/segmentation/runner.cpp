#include "train/tasks/segmentation/runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "models/not_finite.h"
#include "train/config/options.h"
#include "train/inference/model_input.h"

namespace saccade {
namespace {

std::vector<Config> views_of(const Config& config) {
  std::vector<Config> views;
  std::vector<double> scales(config.eval().scales().begin(), config.eval().scales().end());
  if (scales.empty()) scales.push_back(1);
  for (const double scale : scales) {
    Config view = config;
    config::Data& data = *view.mutable_data();
    auto scaled = [&](int32_t side) {
      return side == 0 ? 0 : std::max(1, static_cast<int32_t>(std::lround(side * scale)));
    };
    data.set_val_short_side(scaled(data.val_short_side()));
    data.set_val_long_side(scaled(data.val_long_side()));
    data.set_val_height(scaled(data.val_height()));
    data.set_val_width(scaled(data.val_width()));
    views.push_back(std::move(view));
  }
  return views;
}

// Mirrors the images, and keeps their padding where it was.
Batch mirrored(const Batch& batch) {
  Batch out = batch;
  out.images = Tensor::zeros(batch.images.shape(), DType::kU8);
  const int64_t H = batch.images.dim(1), W = batch.images.dim(2);
  for (size_t n = 0; n < batch.targets.size(); ++n)
    for (int64_t y = 0; y < batch.targets[n].height; ++y) {
      const int64_t width = batch.targets[n].width;
      const uint8_t* from = batch.images.data<uint8_t>() + (static_cast<int64_t>(n) * H + y) * W * 3;
      uint8_t* to = out.images.data<uint8_t>() + (static_cast<int64_t>(n) * H + y) * W * 3;
      for (int64_t x = 0; x < width; ++x) std::memcpy(to + x * 3, from + (width - 1 - x) * 3, 3);
    }
  return out;
}

// The positions at which windows along a side begin: every `stride` pixels, and the last one at the end.
std::vector<int64_t> window_places(int64_t side, int64_t window, int64_t stride) {
  std::vector<int64_t> places;
  for (int64_t at = 0;; at += stride) {
    places.push_back(std::max<int64_t>(0, std::min(at, side - window)));
    if (at + window >= side) return places;
  }
}

}  // namespace

SegmenterRunner::SegmenterRunner(Segmenter& model, const Config& config, int64_t classes)
    : model_(model),
      normalization_(image_normalization(config)),
      views_(views_of(config)),
      classes_(classes),
      window_(config.eval().window()),
      stride_(config.eval().window_stride() > 0 ? config.eval().window_stride() : (2 * window_ + 2) / 3),
      windows_at_a_time_(std::max(
          1, config.eval().batch_size() > 0 ? config.eval().batch_size() : config.data().batch_size())),
      flips_(config.eval().flip()) {
  if (classes > model.num_classes())
    fail_input("model.num_classes: {} for {}, expected at least that many", model.num_classes(),
               count_of(classes, "class", "classes"));
}

SegmenterRunner::Logits SegmenterRunner::forward(const Batch& batch) {
  const Tensor images = normalized_images(batch, normalization_, model_.device()).value();
  const Tensor logits =
      forward_.run({}, images, [&](const Tensor& x) { return call(model_, Var(x)).logits; }).value();
  return {HostCopy(logits.to(DType::kF32)), logits.dim(1), logits.dim(2), logits.dim(3)};
}

CellScores SegmenterRunner::cells(const Logits& logits, const Batch& batch, size_t n,
                                  bool is_mirrored) const {
  const Target& target = batch.targets[n];
  const int64_t numbers = logits.height * logits.width * logits.channels;
  const float* values = logits.values.data<float>() + static_cast<int64_t>(n) * numbers;
  for (int64_t i = 0; i < numbers; ++i)
    if (!std::isfinite(values[i]))
      throw NotFinite(fmt::format("image {} ({}): the predicted score of class {} is not finite",
                                  target.image_id, target.file_name, i % logits.channels));
  auto covered = [](int64_t cells, int64_t side, int64_t padded) {
    return static_cast<double>(cells) * static_cast<double>(side) / static_cast<double>(padded);
  };
  return {.logits = values,
          .height = logits.height,
          .width = logits.width,
          .channels = logits.channels,
          .classes = classes_,
          .rows = covered(logits.height, target.height, batch.images.dim(1)),
          .columns = covered(logits.width, target.width, batch.images.dim(2)),
          .is_mirrored = is_mirrored};
}

void SegmenterRunner::look_through_windows(const Batch& batch, size_t n, PixelScores& image) {
  const Target& target = batch.targets[n];
  const int64_t H = std::min(window_, target.height), W = std::min(window_, target.width);
  std::vector<std::pair<int64_t, int64_t>> places;
  for (int64_t y : window_places(target.height, H, stride_))
    for (int64_t x : window_places(target.width, W, stride_)) places.emplace_back(y, x);
  PixelScores seen({target.height, target.width}, classes_);
  for (size_t first = 0; first < places.size(); first += static_cast<size_t>(windows_at_a_time_)) {
    const size_t count = std::min(places.size() - first, static_cast<size_t>(windows_at_a_time_));
    Batch part;
    part.images = Tensor::empty({static_cast<int64_t>(count), H, W, 3}, DType::kU8);
    part.targets.assign(count, target);
    for (size_t k = 0; k < count; ++k) {
      const auto [y, x] = places[first + k];
      part.targets[k].height = H;
      part.targets[k].width = W;
      for (int64_t row = 0; row < H; ++row)
        std::memcpy(
            part.images.data<uint8_t>() + (static_cast<int64_t>(k) * H + row) * W * 3,
            batch.images.data<uint8_t>() +
                ((static_cast<int64_t>(n) * batch.images.dim(1) + y + row) * batch.images.dim(2) + x) * 3,
            static_cast<size_t>(W * 3));
    }
    for (const bool is_mirrored : {false, true}) {
      if (is_mirrored && !flips_) continue;
      const Logits logits = forward(is_mirrored ? mirrored(part) : part);
      for (size_t k = 0; k < count; ++k)
        seen.add(cells(logits, part, k, is_mirrored), places[first + k].first, places[first + k].second,
                 {H, W});
    }
  }
  seen.normalize();
  image.add_resized(seen);
}

std::function<std::vector<LabelMap>()> SegmenterRunner::start(std::vector<Batch> views) {
  Logits logits;
  if (is_simple()) logits = forward(views[0]);
  return [this, views = std::move(views), logits = std::move(logits)] {
    std::vector<LabelMap> labels;
    if (!logits.values.defined()) {
      for (Scored& scored : run_scored(views)) labels.push_back(std::move(scored.labels));
      return labels;
    }
    const Batch& batch = views[0];
    for (size_t n = 0; n < batch.targets.size(); ++n)
      labels.push_back(best_labels(cells(logits, batch, n, false),
                                   {batch.targets[n].original_height, batch.targets[n].original_width}));
    return labels;
  };
}

std::vector<SegmenterRunner::Scored> SegmenterRunner::run_scored(std::span<const Batch> views) {
  SACCADE_CHECK(views.size() == views_.size(), "[segmenter] {} views of images, expected {}", views.size(),
                views_.size());
  struct Look {
    Logits logits;
    const Batch* batch;
    bool is_mirrored;
  };
  std::vector<Look> looks;
  for (const Batch& batch : views)
    for (const bool is_mirrored : {false, true})
      if (window_ == 0 && (flips_ || !is_mirrored))
        looks.push_back({forward(is_mirrored ? mirrored(batch) : batch), &batch, is_mirrored});
  std::vector<Scored> scored;
  for (size_t n = 0; n < views[0].targets.size(); ++n) {
    const ImageSize size{views[0].targets[n].original_height, views[0].targets[n].original_width};
    PixelScores image(size, classes_);
    for (const Look& look : looks)
      image.add(cells(look.logits, *look.batch, n, look.is_mirrored), 0, 0, size);
    for (const Batch& batch : views)
      if (window_ > 0) look_through_windows(batch, n, image);
    scored.push_back({image.best(), {}});
    scored.back().confidence = image.confidence(scored.back().labels);
  }
  return scored;
}

SegmenterInferencer::SegmenterInferencer(const LoadedModel& model)
    : runner_(model.as<Segmenter>(), model.config, std::ssize(model.class_names)) {
  if (model.config.eval().scales_size() > 0)
    fail_input("eval.scales: bench and libsaccade process images at one size, expected none");
}

std::vector<std::vector<Instance>> SegmenterInferencer::run(const Batch& batch) {
  std::vector<std::vector<Instance>> found;
  for (const SegmenterRunner::Scored& image : runner_.run_scored({&batch, 1})) {
    auto& classes = found.emplace_back();
    for (size_t k = 0; k < image.confidence.size(); ++k) {
      if (image.confidence[k] == 0) continue;  // no pixel has it
      std::vector<uint8_t> pixels(image.labels.values.size());
      std::ranges::transform(image.labels.values, pixels.begin(), [k](uint16_t label) { return label == k; });
      auto mask = std::make_shared<const Mask>(Mask::from_bitmap(image.labels.size, pixels));
      classes.push_back({.label = static_cast<int64_t>(k),
                         .box = mask->box(),
                         .area = static_cast<double>(mask->area()),
                         .score = image.confidence[k],
                         .mask = mask});
    }
    std::ranges::stable_sort(classes, std::ranges::greater{}, &Instance::score);
  }
  return found;
}

}  // namespace saccade
