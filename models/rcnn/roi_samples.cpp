#include "models/rcnn/roi_samples.h"

#include <algorithm>
#include <cmath>

#include "core/kernels/roi_align/roi_samples.h"
#include "core/runtime/parallel.h"
#include "core/tensor/execution.h"
#include "models/pyramid/anchor_targets.h"
#include "models/rcnn/regions.h"

namespace saccade {

BoxLists boxes_of_images(const float* boxes, const float* scores, int64_t images, int64_t proposals) {
  BoxLists lists(static_cast<size_t>(images));
  for (int64_t i = 0; i < images * proposals; ++i) {
    std::vector<float>& list = lists[static_cast<size_t>(i / proposals)];
    if (scores[i] > kLeftOut) list.insert(list.end(), boxes + 4 * i, boxes + 4 * i + 4);
  }
  return lists;
}

BoxLists moved_samples(const RoiSamples& samples, const float* boxes, const std::vector<ImageSize>& sizes) {
  BoxLists lists(sizes.size());
  std::vector<bool> is_own(static_cast<size_t>(samples.count()), false);
  for (const RoiObject& o : samples.objects) is_own[static_cast<size_t>(o.roi)] = o.is_own;
  for (size_t r = 0; r < is_own.size(); ++r) {
    const auto image = static_cast<size_t>(samples.images[r]);
    const float *b = boxes + 4 * r, width = static_cast<float>(sizes[image].width),
                height = static_cast<float>(sizes[image].height);
    if (is_own[r] || !std::isfinite(b[0] + b[1] + b[2] + b[3])) continue;
    lists[image].insert(lists[image].end(), {std::clamp(b[0], 0.0f, width), std::clamp(b[1], 0.0f, height),
                                             std::clamp(b[2], 0.0f, width), std::clamp(b[3], 0.0f, height)});
  }
  return lists;
}

RoiSamples sample_rois(const BoxLists& proposals, const std::vector<Target>& targets, int64_t classes,
                       const RoiSampling& options, std::string_view stage) {
  RoiSamples out;
  for (int64_t n = 0; n < std::ssize(targets); ++n) {
    const Target& target = targets[static_cast<size_t>(n)];
    const std::vector<float> objects = corners_of_objects(target);
    const std::vector<float>& proposed = proposals[static_cast<size_t>(n)];
    std::vector<float> candidates = objects;
    candidates.insert(candidates.end(), proposed.begin(), proposed.end());
    std::vector<int32_t> stands = assign_max_iou(proposed, objects, options.assigner);
    std::vector<int32_t> own(objects.size() / 4);
    for (size_t k = 0; k < own.size(); ++k) {
      const float* b = objects.data() + 4 * k;
      own[k] = b[2] > b[0] && b[3] > b[1] ? static_cast<int32_t>(k) : kIgnored;
    }
    stands.insert(stands.begin(), own.begin(), own.end());
    const Sample sample =
        sample_candidates(stands, options.sampler, execution().rng_key, target.image_id, stage);
    const auto positives = static_cast<float>(std::max<size_t>(sample.positives.size(), 1));
    const auto all =
        static_cast<float>(std::max<size_t>(sample.positives.size() + sample.negatives.size(), 1));
    auto add = [&](int64_t i, int64_t label) {
      out.boxes.insert(out.boxes.end(), candidates.begin() + 4 * i, candidates.begin() + 4 * i + 4);
      out.images.push_back(n);
      out.labels.push_back(label);
      out.weights.push_back(1 / all);
    };
    for (int64_t i : sample.positives) {
      const int64_t object = stands[static_cast<size_t>(i)];
      out.objects.push_back({out.count(), n, object, i < std::ssize(own)});
      out.object_boxes.insert(out.object_boxes.end(), objects.begin() + 4 * object,
                              objects.begin() + 4 * object + 4);
      out.mask_weights.push_back(target.instances[static_cast<size_t>(object)].mask ? 1 / positives : 0);
      add(i, target.instances[static_cast<size_t>(object)].label);
    }
    for (int64_t i : sample.negatives) add(i, classes);
  }
  return out;
}

namespace {

// The mean of the samples of cell p of an axis, as weights of pixels [first, first + count).
struct PixelWeights {
  int64_t first = 0;
  std::vector<float> weights;
  PixelWeights(const kernels::RoiAxis<float>& axis, int p) {
    const float part = 1 / static_cast<float>(std::max(axis.samples, 1));
    for (int i = 0; i < axis.samples; ++i) {
      const auto s = axis.sample(p, i);
      if (s.weight_low + s.weight_high == 0) continue;
      if (weights.empty()) first = s.low;
      weights.resize(std::max(weights.size(), static_cast<size_t>(s.high - first) + 1), 0);
      weights[static_cast<size_t>(s.low - first)] += s.weight_low * part;
      weights[static_cast<size_t>(s.high - first)] += s.weight_high * part;
    }
  }
};

// box: in pixels of the mask
void cut_mask(const Mask& mask, const float* box, int size, float* out) {
  const auto width = static_cast<int>(mask.size().width), height = static_cast<int>(mask.size().height);
  auto axis = [&](float first, float last, int length) {
    return kernels::RoiAxis<float>::of(first, last, 1, length, size, 0, true);
  };
  const auto rows = axis(box[1], box[3], height), columns = axis(box[0], box[2], width);
  // The pixels that are read.
  const auto top = std::clamp(static_cast<int64_t>(std::floor(box[1])) - 1, int64_t{0}, int64_t{height} - 1);
  const auto left = std::clamp(static_cast<int64_t>(std::floor(box[0])) - 1, int64_t{0}, int64_t{width} - 1);
  const ImageSize window{
      std::clamp(static_cast<int64_t>(std::ceil(box[3])) + 2, top + 1, int64_t{height}) - top,
      std::clamp(static_cast<int64_t>(std::ceil(box[2])) + 2, left + 1, int64_t{width}) - left};
  const std::vector<uint8_t> pixels = mask.crop(top, left, window).bitmap();
  std::vector<PixelWeights> across;
  for (int q = 0; q < size; ++q) across.emplace_back(columns, q);
  std::vector<float> sums(static_cast<size_t>(window.width));
  for (int p = 0; p < size; ++p) {
    const PixelWeights down(rows, p);
    std::ranges::fill(sums, 0.0f);
    for (size_t i = 0; i < down.weights.size(); ++i) {
      const uint8_t* row = pixels.data() + (down.first + static_cast<int64_t>(i) - top) * window.width;
      for (size_t x = 0; x < sums.size(); ++x) sums[x] += down.weights[i] * row[x];
    }
    for (int q = 0; q < size; ++q) {
      const PixelWeights& w = across[static_cast<size_t>(q)];
      float value = 0;
      for (size_t j = 0; j < w.weights.size(); ++j)
        value += w.weights[j] * sums[static_cast<size_t>(w.first - left) + j];
      out[p * size + q] = value >= 0.5f ? 1.0f : 0.0f;
    }
  }
}

}  // namespace

std::vector<float> mask_targets(const RoiSamples& samples, const std::vector<Target>& targets, int64_t size) {
  std::vector<float> out(samples.objects.size() * static_cast<size_t>(size * size), 0);
  // Masks whose size differs from that of the image that the model gets are resized if a region stands for
  // their object.
  std::vector<std::vector<Mask>> resized(targets.size());
  for (size_t n = 0; n < targets.size(); ++n) resized[n].resize(targets[n].instances.size());
  for (const RoiObject& o : samples.objects) {
    const Target& target = targets[static_cast<size_t>(o.image)];
    const auto& mask = target.instances[static_cast<size_t>(o.object)].mask;
    const ImageSize size_here{target.height, target.width};
    Mask& own = resized[static_cast<size_t>(o.image)][static_cast<size_t>(o.object)];
    if (mask && mask->size() != size_here && own.size() == ImageSize{}) own = mask->resize(size_here);
  }
  parallel_for(std::ssize(samples.objects), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const RoiObject& o = samples.objects[static_cast<size_t>(i)];
      const auto n = static_cast<size_t>(o.image), k = static_cast<size_t>(o.object);
      const auto& mask = targets[n].instances[k].mask;
      if (!mask) continue;
      const Mask& own = resized[n][k];
      cut_mask(own.size() == ImageSize{} ? *mask : own, samples.boxes.data() + 4 * o.roi,
               static_cast<int>(size), out.data() + i * size * size);
    }
  });
  return out;
}

}  // namespace saccade
