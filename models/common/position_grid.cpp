#include "models/common/position_grid.h"

#include <algorithm>
#include <cmath>

#include "autograd/scope.h"

namespace saccade {
namespace {

// The weights of the four cells around a place that is `f` behind the second of them.
std::array<double, 4> tap_weights(Resampling resampling, double f) {
  if (resampling == Resampling::kLinear) return {0, 1 - f, f, 0};
  constexpr double kA = -0.75;
  auto near = [](double x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  auto far = [](double x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  return {far(1 + f), near(f), near(1 - f), far(2 - f)};
}

// [to, from]: interpolation along one axis.
Tensor axis_matrix(Resampling resampling, int64_t from, int64_t to) {
  Tensor t = Tensor::zeros({to, from});
  for (int64_t i = 0; i < to; ++i) {
    double at = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    double cell = std::floor(at);
    const std::array<double, 4> weights = tap_weights(resampling, at - cell);
    for (int64_t k = 0; k < 4; ++k) {
      int64_t j = std::clamp<int64_t>(static_cast<int64_t>(cell) + k - 1, 0, from - 1);
      t.data<float>()[i * from + j] += static_cast<float>(weights[static_cast<size_t>(k)]);
    }
  }
  return t;
}

}  // namespace

Var resized_positions(const Var& positions, const MapSize& from, const MapSize& to, Resampling resampling,
                      const ConstantKeeper& keeper) {
  if (from == to) return positions;
  ExecutionScope scope;
  execution().compute = DType::kF32;
  execution().math = MathMode::kExact;
  const DType dtype = positions.dtype();
  const Device device = positions.device();
  const int64_t C = positions.dim(2);
  const CacheKey key =
      CacheKey().add(device, dtype, from.height, from.width, to.height, to.width, resampling);
  const Tensors axes = keeper.get(key, [&]() -> Tensors {
    auto matrix = [&](int64_t a, int64_t b) { return axis_matrix(resampling, a, b).to(dtype).to(device); };
    return {matrix(from.height, to.height), matrix(from.width, to.width)};
  });
  Var grid = reshape(positions, {from.height, from.width * C});
  grid = reshape(matmul(Var(axes[0]), grid), {to.height, from.width, C});
  return reshape(matmul(Var(axes[1]), grid), {1, to.cells(), C});
}

}  // namespace saccade
