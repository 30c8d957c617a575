#include "layers/position_encoding.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/kernels/sine_encoding/sine_encoding.h"
#include "layers/module_scope.h"

namespace saccade {
namespace {

// `channels` sines and cosines, interleaved, of one coordinate.
void encode(double coordinate, int64_t channels, double temperature, float* out) {
  for (int64_t c = 0; c < channels; c += 2) {
    double angle = coordinate / std::pow(temperature, static_cast<double>(c) / static_cast<double>(channels));
    out[c] = static_cast<float>(std::sin(angle));
    if (c + 1 < channels) out[c + 1] = static_cast<float>(std::cos(angle));
  }
}

// [cells, channels]: the encodings of one axis.
std::vector<float> axis_table(int64_t cells, int64_t valid, int64_t channels, double offset,
                              double temperature) {
  std::vector<float> table(static_cast<size_t>(cells * channels));
  double scale = 2 * std::numbers::pi / (static_cast<double>(valid) + 1e-6);
  for (int64_t i = 0; i < cells; ++i) {
    double cell = static_cast<double>(std::min(i, std::max<int64_t>(valid - 1, 0)));
    encode((cell + 1 + offset) * scale, channels, temperature, table.data() + i * channels);
  }
  return table;
}

}  // namespace

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

Tensor sine_position_encoding(std::span<const MapSize> valid, MapSize map, int64_t channels, double offset,
                              Device device, double temperature) {
  SACCADE_CHECK(channels % 4 == 0, "[sine_position_encoding] {} channels, expected a multiple of 4",
                channels);
  bool same = std::ranges::all_of(valid, [&](const MapSize& v) { return v == valid[0]; });
  int64_t N = same && !valid.empty() ? 1 : static_cast<int64_t>(valid.size()), half = channels / 2;
  Tensor out = Tensor::empty({N, map.cells(), channels});
  float* p = out.data<float>();
  for (int64_t n = 0; n < N; ++n) {
    auto rows = axis_table(map.height, valid[static_cast<size_t>(n)].height, half, offset, temperature);
    auto columns = axis_table(map.width, valid[static_cast<size_t>(n)].width, half, offset, temperature);
    for (int64_t y = 0; y < map.height; ++y) {
      for (int64_t x = 0; x < map.width; ++x, p += channels) {
        std::copy_n(rows.data() + y * half, half, p);
        std::copy_n(columns.data() + x * half, half, p + half);
      }
    }
  }
  return out.to(device);
}

Tensor sine_box_encoding(const Tensor& x, int64_t channels) {
  Shape shape = x.shape();
  shape[-1] *= channels;
  Tensor out = Tensor::empty({x.numel(), channels}, DType::kF32, x.device());
  kernels::sine_encoding(x.to(DType::kF32).contiguous(), out);
  return out.reshape(shape);
}

LearnedPositionEncoding::LearnedPositionEncoding(int64_t channels) {
  row_embed_ = param("row_embed.weight", {kMaxCells, channels / 2}, init::uniform(0, 1));
  col_embed_ = param("col_embed.weight", {kMaxCells, channels / 2}, init::uniform(0, 1));
}

Var LearnedPositionEncoding::forward(MapSize map) const {
  ModuleScope scope(*this);
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
