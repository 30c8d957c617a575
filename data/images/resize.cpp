#include "data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/tensor/error.h"
#include "data/images/pixel4.h"

// The loops over a row benefit from full vectorisation.
#pragma GCC optimize("O3")

namespace saccade {
namespace {

constexpr int kPrecisionBits = 32 - 8 - 2;
constexpr int32_t kHalf = 1 << (kPrecisionBits - 1);

// The input samples of each output sample and their fixed-point weights.
struct Taps {
  int64_t size = 0;                   // room per output sample
  std::vector<int64_t> first, count;  // [out]
  std::vector<int32_t> weights;       // [out, size]
};

double triangle(double x) { return x < 1.0 ? 1.0 - x : 0.0; }
double cubic(double x) {
  constexpr double a = -0.5;
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

Taps make_taps(int64_t in, int64_t out, Filter filter) {
  const bool bicubic = filter == Filter::kBicubic;
  double scale = static_cast<double>(in) / static_cast<double>(out);
  double stretch = filter == Filter::kFourPixels ? 1.0 : std::max(scale, 1.0),
         support = bicubic ? 2.0 * stretch : stretch;
  Taps taps;
  taps.size = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  taps.first.resize(static_cast<size_t>(out));
  taps.count.resize(static_cast<size_t>(out));
  taps.weights.assign(static_cast<size_t>(out * taps.size), 0);
  std::vector<double> w(static_cast<size_t>(taps.size));
  double inverse = 1.0 / stretch;
  for (int64_t i = 0; i < out; ++i) {
    double center = (static_cast<double>(i) + 0.5) * scale, sum = 0;
    int64_t begin = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    int64_t count = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in) - begin;
    for (int64_t k = 0; k < count; ++k) {
      double x = std::abs((static_cast<double>(k + begin) - center + 0.5) * inverse);
      double value = bicubic ? cubic(x) : triangle(x);
      w[static_cast<size_t>(k)] = value;
      sum += value;
    }
    int32_t* row = taps.weights.data() + i * taps.size;
    for (int64_t k = 0; k < count; ++k) {
      double value = w[static_cast<size_t>(k)];
      if (sum != 0) value /= sum;
      row[k] = static_cast<int32_t>((value < 0 ? -0.5 : 0.5) + value * (1 << kPrecisionBits));
    }
    taps.first[static_cast<size_t>(i)] = begin;
    taps.count[static_cast<size_t>(i)] = count;
  }
  return taps;
}

inline uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::max(std::min(sum >> kPrecisionBits, 255), 0));
}

Image resize_columns(const Image& in, int64_t width, Filter filter) {
  Taps taps = make_taps(in.width, width, filter);
  Image out(in.height, width);
  // One spare byte after each row, since pixels are read and written four bytes at a time.
  std::vector<uint8_t> from(static_cast<size_t>(in.width * 3 + 1)), to(static_cast<size_t>(width * 3 + 1));
  for (int64_t y = 0; y < in.height; ++y) {
    std::memcpy(from.data(), in.row(y), static_cast<size_t>(in.width * 3));
    for (int64_t x = 0; x < width; ++x) {
      const int32_t* w = taps.weights.data() + x * taps.size;
      const uint8_t* src = from.data() + taps.first[static_cast<size_t>(x)] * 3;
      int64_t count = taps.count[static_cast<size_t>(x)];
      Int4 sum = {kHalf, kHalf, kHalf, 0};
      for (int64_t k = 0; k < count; ++k) sum += load_pixel(src + k * 3) * w[k];
      uint32_t pixel = pack_pixel(sum >> kPrecisionBits);
      std::memcpy(to.data() + x * 3, &pixel, 4);
    }
    std::memcpy(out.row(y), to.data(), static_cast<size_t>(width * 3));
  }
  return out;
}

Image resize_rows(const Image& in, int64_t height, Filter filter) {
  Taps taps = make_taps(in.height, height, filter);
  Image out(height, in.width);
  int64_t n = in.width * 3;
  std::vector<int32_t> sums(static_cast<size_t>(n));
  int32_t* __restrict sum = sums.data();
  for (int64_t y = 0; y < height; ++y) {
    const int32_t* w = taps.weights.data() + y * taps.size;
    int64_t count = taps.count[static_cast<size_t>(y)];
    const uint8_t* __restrict src = in.row(taps.first[static_cast<size_t>(y)]);
    uint8_t* __restrict dst = out.row(y);
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int64_t k = 0; k < count; ++k) {
      int32_t weight = w[k];
      const uint8_t* __restrict line = src + k * n;
      for (int64_t i = 0; i < n; ++i) sum[i] += line[i] * weight;
    }
    for (int64_t i = 0; i < n; ++i) dst[i] = to_byte(sum[i]);
  }
  return out;
}

}  // namespace

Image resize_image(const Image& image, int64_t height, int64_t width, Filter filter) {
  SACCADE_CHECK(height > 0 && width > 0 && image.height > 0 && image.width > 0,
                "[resize_image] {} x {} to {} x {}, expected sizes of at least 1", image.width, image.height,
                width, height);
  check_image_size(height, width);  // before memory for the filter's weights is allocated
  if (width == image.width) return height == image.height ? image : resize_rows(image, height, filter);
  if (height == image.height) return resize_columns(image, width, filter);
  // Each pass rounds to bytes, so their order affects the last bit; this is Pillow 13's rule.
  bool rows_first = image.height > height && image.height - height > 2 * (image.width - width);
  return rows_first ? resize_columns(resize_rows(image, height, filter), width, filter)
                    : resize_rows(resize_columns(image, width, filter), height, filter);
}

}  // namespace saccade
