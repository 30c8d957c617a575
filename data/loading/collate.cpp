#include <algorithm>
#include <cstring>

#include "core/tensor/integers.h"
#include "data/loading/loader.h"

namespace saccade {

Target make_target(const Sample& sample, ImageSize original) {
  Target t;
  t.original_height = original.height;
  t.original_width = original.width;
  t.frame = {sample.image.height, sample.image.width};
  t.height = t.frame.height;
  t.width = t.frame.width;
  t.label = sample.label;
  t.instances = sample.instances;
  if (!sample.label_map.values.empty()) t.label_map = std::make_shared<const LabelMap>(sample.label_map);
  return t;
}

// Uses only plain memory functions: this runs on the loader's own threads, which must not use tensor
// operations and their OpenMP pool.
Batch collate(const std::vector<Sample>& samples, std::vector<Target> targets, int64_t pad_multiple) {
  int64_t height = 1, width = 1;
  for (const Sample& s : samples) {
    height = std::max({height, s.image.height, s.canvas_height});
    width = std::max({width, s.image.width, s.canvas_width});
  }
  height = round_up(height, pad_multiple);
  width = round_up(width, pad_multiple);
  int64_t count = static_cast<int64_t>(samples.size());
  Batch batch;
  batch.images = Tensor::empty({count, height, width, 3}, DType::kU8);
  auto* pixels = batch.images.data<uint8_t>();
  batch.targets = std::move(targets);
  for (const Sample& sample : samples) {
    const Image& image = sample.image;
    for (int64_t y = 0; y < height; ++y) {
      int64_t used = y < image.height ? image.width : 0;
      if (used > 0) std::memcpy(pixels, image.row(y), static_cast<size_t>(used * 3));
      std::memset(pixels + used * 3, 0, static_cast<size_t>((width - used) * 3));
      pixels += width * 3;
    }
  }
  return batch;
}

void take_part(Batch& batch, int64_t begin, int64_t end, int64_t whole) {
  batch.first = begin;
  batch.whole = whole;
  const auto count = static_cast<int64_t>(batch.targets.size());
  if (count == end - begin) return;
  if (batch.lambda != 1)
    for (int64_t n = begin; n < end; ++n)
      batch.partner_labels.push_back(batch.targets[static_cast<size_t>(count - 1 - n)].label);
  batch.images = batch.images.slice(0, begin, end).contiguous();
  batch.targets = {batch.targets.begin() + begin, batch.targets.begin() + end};
}

void pad_batch(Batch& batch, int64_t height, int64_t width) {
  const int64_t N = batch.images.dim(0), H = batch.images.dim(1), W = batch.images.dim(2);
  if (H == height && W == width) return;
  Tensor padded = Tensor::zeros({N, height, width, 3}, DType::kU8);
  for (int64_t row = 0; row < N * H; ++row)
    std::memcpy(padded.data<uint8_t>() + (row / H * height + row % H) * width * 3,
                batch.images.data<uint8_t>() + row * W * 3, static_cast<size_t>(W * 3));
  batch.images = padded;
}

}  // namespace saccade
