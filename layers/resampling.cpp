#include "layers/resampling.h"

#include <algorithm>
#include <cmath>

namespace saccade {
namespace {

// Keys' cubic convolution kernel, as a function of the distance in cells.
double cubic(double a, double distance) {
  const double x = std::abs(distance);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

double weight(Resampling resampling, double distance) {
  switch (resampling) {
    case Resampling::kLinear:
      return std::max(0.0, 1 - std::abs(distance));
    case Resampling::kCubic:
      return cubic(-0.75, distance);
    case Resampling::kSmoothCubic:
      return cubic(-0.5, distance);
  }
  return 0;
}

}  // namespace

Tensor resampling_matrix(Resampling resampling, int64_t from, int64_t to) {
  Tensor t = Tensor::zeros({to, from});
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const bool smooth = resampling == Resampling::kSmoothCubic;
  const double stretch = smooth ? std::max(step, 1.0) : 1;  // width of the filter
  const auto reach = static_cast<int64_t>(std::ceil(2 * stretch));
  for (int64_t i = 0; i < to; ++i) {
    float* row = t.data<float>() + i * from;
    const double at = (static_cast<double>(i) + 0.5) * step - 0.5;
    const auto cell = static_cast<int64_t>(std::floor(at));
    double sum = 0;
    auto visit = [&](const auto& f) {
      for (int64_t j = cell - reach + 1; j <= cell + reach; ++j)
        if (!smooth || (j >= 0 && j < from))
          f(std::clamp<int64_t>(j, 0, from - 1), weight(resampling, (static_cast<double>(j) - at) / stretch));
    };
    visit([&](int64_t, double w) { sum += w; });
    visit([&](int64_t j, double w) { row[j] += static_cast<float>(w / (smooth ? sum : 1)); });
  }
  return t;
}

}  // namespace saccade
