#include "models/pyramid/box_coder.h"

#include <algorithm>
#include <cmath>

namespace saccade {

std::array<float, 4> BoxCoder::encode(const float* from, const float* box) const {
  std::array<float, 4> deltas{};
  for (size_t a = 0; a < 2; ++a) {
    const float side = from[a + 2] - from[a], wanted = box[a + 2] - box[a];
    const float centre = from[a] + 0.5f * side, wanted_centre = box[a] + 0.5f * wanted;
    deltas[a] = (wanted_centre - centre) / side / static_cast<float>(deviations[a]);
    deltas[a + 2] = std::log(wanted / side) / static_cast<float>(deviations[a + 2]);
  }
  return deltas;
}

std::array<float, 4> BoxCoder::decode(const float* from, const float* deltas) const {
  std::array<float, 4> box{};
  const auto most = static_cast<float>(kMaxGrowth);
  for (size_t a = 0; a < 2; ++a) {
    const float side = from[a + 2] - from[a], centre = from[a] + 0.5f * side;
    float growth = std::min(deltas[a + 2] * static_cast<float>(deviations[a + 2]), most);
    if (limits_shrinking) growth = std::max(growth, -most);
    const float moved = centre + deltas[a] * static_cast<float>(deviations[a]) * side;
    const float half = 0.5f * side * std::exp(growth);
    box[a] = moved - half;
    box[a + 2] = moved + half;
  }
  return box;
}

Var BoxCoder::decode(const Var& deltas, const Tensor& from) const {
  const Var x = cast(deltas, DType::kF32), base(from);
  auto part = [](const Var& v, int64_t begin) { return slice(v, -1, begin, begin + 2); };
  auto deviation = [&](size_t first) {
    const std::vector<float> two{static_cast<float>(deviations[first]),
                                 static_cast<float>(deviations[first + 1])};
    return two == std::vector<float>{1, 1} ? Var() : Var(Tensor::from<float>({2}, two, deltas.device()));
  };
  const Var sides = sub(part(base, 2), part(base, 0)), centres = add(part(base, 0), mul_scalar(sides, 0.5));
  Var shift = part(x, 0), growth = part(x, 2);
  if (const Var d = deviation(0); d.defined()) shift = mul(shift, d);
  if (const Var d = deviation(2); d.defined()) growth = mul(growth, d);
  growth = clamp(growth, limits_shrinking ? -kMaxGrowth : -1e30, kMaxGrowth);
  const Var moved = add(centres, mul(shift, sides)), half = mul(mul_scalar(sides, 0.5), exp(growth));
  return concat({sub(moved, half), add(moved, half)}, -1);
}

Var cut_boxes(const Var& boxes, const Tensor& sizes) {
  const int64_t N = sizes.dim(0);
  const Var limits = reshape(concat({Var(sizes), Var(sizes)}, -1), {N, 1, 4});
  return minimum(maximum(boxes, Var(Tensor::scalar(0, DType::kF32, boxes.device()))), limits);
}

}  // namespace saccade
