#include "core/kernels/sine_encoding/sine_encoding.h"

#include <cmath>
#include <numbers>

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr double kTemperature = 10000;

// Channels c and c + 1 (where there is one) of the encoding of one coordinate.
SACCADE_HD void encode_pair(double coordinate, int64_t c, int64_t channels, float* out) {
  double angle = coordinate / std::pow(kTemperature, static_cast<double>(c) / static_cast<double>(channels));
  out[c] = static_cast<float>(std::sin(angle));
  if (c + 1 < channels) out[c + 1] = static_cast<float>(std::cos(angle));
}

struct EncodePairs {
  const float* x;
  float* y;
  int64_t channels, pairs;
  SACCADE_HD void operator()(int64_t i) const {
    encode_pair(x[i / pairs] * 2 * std::numbers::pi, i % pairs * 2, channels, y + i / pairs * channels);
  }
};

void sine_encoding_generic(const Tensor& x, Tensor& y) {
  const int64_t channels = y.dim(-1), pairs = ceil_div(channels, 2);
  for_each(x.numel() * pairs, EncodePairs{x.data<float>(), y.data<float>(), channels, pairs}, 100);
}

SACCADE_REGISTER_KERNEL(sine_encoding, &sine_encoding_generic);

}  // namespace
}  // namespace saccade::kernels
