#include "layers/position_encoding.h"

#include "autograd/function.h"
#include "autograd/scope.h"
#include "core/kernels/feature_grid/feature_grid.h"
#include "core/kernels/sine_encoding/sine_encoding.h"

namespace saccade {

Tensor cell_centres(MapSize map, double low, double high, DType dtype, Device device) {
  Tensor centres = Tensor::empty({1, map.cells(), 2}, dtype, device);
  kernels::cell_centres(map, low, high, centres);
  return centres;
}

Var reference_points(const Var& tokens, MapSize map) {
  DType dtype = sum_dtype(tokens.dtype());
  Tensor centres = cell_centres(map, 0, 1, dtype, tokens.device()).unsqueeze(2);
  return Var(centres.expand({tokens.dim(0), map.cells(), 1, 2}));
}

Tensor sine_box_encoding(const Tensor& x, int64_t channels, double temperature) {
  Shape shape = x.shape();
  shape[-1] *= channels;
  Tensor out = Tensor::empty({x.numel(), channels}, DType::kF32, x.device());
  kernels::sine_encoding(x.to(DType::kF32).contiguous(), temperature, out);
  out = out.reshape(shape);
  if (execution().observer)
    observe_kernel("sine_encoding", {x}, out,
                   OpAttributes().add("channels", channels).add("temperature", temperature));
  return out;
}

LearnedPositionEncoding::LearnedPositionEncoding(int64_t channels) {
  row_embed_ = param("row_embed.weight", {kMaxCells, channels / 2}, init::uniform(0, 1));
  col_embed_ = param("col_embed.weight", {kMaxCells, channels / 2}, init::uniform(0, 1));
}

Var LearnedPositionEncoding::forward(MapSize map) const {
  auto [height, width] = map;
  if (height > kMaxCells || width > kMaxCells)
    fail_input("learned position encoding: a map of {}x{} cells, at most {} on a side", height, width,
               kMaxCells);
  int64_t half = row_embed_.dim(1);
  Var rows = expand(reshape(slice(row_embed_, 0, 0, height), {height, 1, half}), {height, width, half});
  Var columns = expand(reshape(slice(col_embed_, 0, 0, width), {1, width, half}), {height, width, half});
  return reshape(concat({columns, rows}, -1), {1, height * width, 2 * half});
}

}  // namespace saccade
