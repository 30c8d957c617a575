#include "layers/cell_centres.h"

namespace saccade {

Tensor cell_centres(MapSize map, double low, double high) {
  Tensor centres = Tensor::empty({1, map.cells(), 2}, DType::kF64);
  auto* p = centres.data<double>();
  for (int64_t y = 0; y < map.height; ++y) {
    for (int64_t x = 0; x < map.width; ++x) {
      *p++ = cell_centre(x, static_cast<double>(map.width)) * (high - low) + low;
      *p++ = cell_centre(y, static_cast<double>(map.height)) * (high - low) + low;
    }
  }
  return centres;
}

Var reference_points(const Var& tokens, MapSize map) {
  DType dtype = tokens.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  Tensor centres = cell_centres(map, 0, 1).to(dtype).to(tokens.device()).unsqueeze(2);
  return Var(centres.expand({tokens.dim(0), map.cells(), 1, 2}));
}

}  // namespace saccade
