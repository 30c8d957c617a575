#include "train/tasks/segmentation/cell_scores.h"

#include <algorithm>
#include <cmath>

#include "core/runtime/parallel.h"

namespace saccade {
namespace {

// The positions of the new pixels of a side between the centres of the old ones.
struct Axis {
  std::vector<int64_t> low, high;
  std::vector<float> part;  // weight of the higher one

  Axis(int64_t cells, double covered, int64_t pixels, bool is_mirrored = false) {
    const double scale = covered / static_cast<double>(pixels);
    for (int64_t i = 0; i < pixels; ++i) {
      const auto pixel = static_cast<double>(is_mirrored ? pixels - 1 - i : i);
      const double at = std::clamp((pixel + 0.5) * scale - 0.5, 0.0, static_cast<double>(cells - 1));
      low.push_back(static_cast<int64_t>(at));
      high.push_back(std::min(low.back() + 1, cells - 1));
      part.push_back(static_cast<float>(at - static_cast<double>(low.back())));
    }
  }
};

// Calls f(y, x, logits) for every pixel, with rows on several threads.
template <class F>
void for_each_pixel(const CellScores& s, ImageSize size, F f) {
  const Axis rows(s.height, s.rows, size.height), columns(s.width, s.columns, size.width, s.is_mirrored);
  parallel_for(size.height, 1, [&](int64_t begin, int64_t end) {
    const auto K = static_cast<size_t>(s.classes);
    std::vector<float> row(static_cast<size_t>(s.width) * K), pixel(K);
    for (int64_t y = begin; y < end; ++y) {
      const auto i = static_cast<size_t>(y);
      const float* upper = s.logits + rows.low[i] * s.width * s.channels;
      const float* lower = s.logits + rows.high[i] * s.width * s.channels;
      const float down = rows.part[i];
      for (int64_t x = 0; x < s.width; ++x)
        for (size_t k = 0; k < K; ++k) {
          const float a = upper[static_cast<size_t>(x * s.channels) + k],
                      b = lower[static_cast<size_t>(x * s.channels) + k];
          row[static_cast<size_t>(x) * K + k] = a + down * (b - a);
        }
      for (int64_t x = 0; x < size.width; ++x) {
        const auto j = static_cast<size_t>(x);
        const float* left = row.data() + static_cast<size_t>(columns.low[j]) * K;
        const float* right = row.data() + static_cast<size_t>(columns.high[j]) * K;
        const float part = columns.part[j];
        for (size_t k = 0; k < K; ++k) pixel[k] = left[k] + part * (right[k] - left[k]);
        f(y, x, pixel.data());
      }
    }
  });
}

}  // namespace

LabelMap best_labels(const CellScores& scores, ImageSize size) {
  LabelMap labels(size);
  for_each_pixel(scores, size, [&](int64_t y, int64_t x, const float* logits) {
    labels.values[static_cast<size_t>(y * size.width + x)] =
        static_cast<uint16_t>(std::max_element(logits, logits + scores.classes) - logits);
  });
  return labels;
}

void PixelScores::add(const CellScores& scores, int64_t y0, int64_t x0, ImageSize part) {
  for_each_pixel(scores, part, [&](int64_t y, int64_t x, float* logits) {
    const float largest = *std::max_element(logits, logits + classes_);
    float sum = 0;
    for (int64_t k = 0; k < classes_; ++k) sum += logits[k] = std::exp(logits[k] - largest);
    float* to = sums_.data() + ((y0 + y) * size_.width + x0 + x) * classes_;
    for (int64_t k = 0; k < classes_; ++k) to[k] += logits[k] / sum;
  });
}

void PixelScores::normalize() {
  parallel_for(size_.height * size_.width, 1 << 12, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* p = sums_.data() + i * classes_;
      float sum = 0;
      for (int64_t k = 0; k < classes_; ++k) sum += p[k];
      for (int64_t k = 0; k < classes_; ++k) p[k] /= sum;
    }
  });
}

void PixelScores::add_resized(const PixelScores& other) {
  for_each_pixel(other.scores(), size_, [&](int64_t y, int64_t x, const float* p) {
    float* to = sums_.data() + (y * size_.width + x) * classes_;
    for (int64_t k = 0; k < classes_; ++k) to[k] += p[k];
  });
}

std::vector<double> PixelScores::confidence(const LabelMap& labels) const {
  std::vector<double> sums(static_cast<size_t>(classes_)), counts(static_cast<size_t>(classes_));
  for (size_t i = 0; i < labels.values.size(); ++i) {
    const size_t k = labels.values[i];
    const float* p = sums_.data() + i * static_cast<size_t>(classes_);
    double all = 0;
    for (int64_t c = 0; c < classes_; ++c) all += p[c];
    sums[k] += p[k] / all;
    counts[k] += 1;
  }
  for (size_t k = 0; k < sums.size(); ++k) sums[k] = counts[k] > 0 ? sums[k] / counts[k] : 0;
  return sums;
}

}  // namespace saccade
