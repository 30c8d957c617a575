#include "models/common/patch_embed.h"
#include "autograd/scope.h"

namespace saccade {

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
    auto matrix = [&](int64_t a, int64_t b) {
      return resampling_matrix(resampling, a, b).to(dtype).to(device);
    };
    return {matrix(from.height, to.height), matrix(from.width, to.width)};
  });
  Var grid = reshape(positions, {from.height, from.width * C});
  grid = reshape(matmul(Var(axes[0]), grid), {to.height, from.width, C});
  return reshape(matmul(Var(axes[1]), grid), {1, to.cells(), C});
}

}  // namespace saccade
