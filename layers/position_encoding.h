// The positions of the cells of a map, and the position encodings of the DETR family (those of padded maps
// are in models/common/token_maps.h). The centre of cell (y, x) is at ((x + 0.5) / width, (y + 0.5) /
// height).
#pragma once

#include "autograd/ops.h"
#include "layers/module.h"

namespace saccade {

// All cell centres of a map as (x, y), in coordinates that run from `low` to `high` across it. [1, H * W, 2],
// f32 or f64
Tensor cell_centres(MapSize map, double low, double high, DType dtype, Device device);

// The reference points of a map's own tokens [N, H * W, C] for layers that sample around points, normalised
// by the map: [N, H * W, 1, 2] on the tokens' device, f32 (f64 with f64 tokens).
Var reference_points(const Var& tokens, MapSize map);

constexpr double kSineTemperature = 10000;  // of the published models, except for DINO's cells

// Sine encoding of boxes or points in [0, 1]: x [.., K] -> [.., K * channels], pairs of the sine and cosine
// of the coordinate times 2 pi / temperature^(2i / channels).
Tensor sine_box_encoding(const Tensor& x, int64_t channels, double temperature = kSineTemperature);

// Learned encoding: row_embed and col_embed [50, C/2]; channels are (column, row), as in DETR.
class LearnedPositionEncoding : public Module {
 public:
  explicit LearnedPositionEncoding(int64_t channels);
  Var forward(MapSize map) const;  // [1, H * W, C]

 private:
  static constexpr int64_t kMaxCells = 50;
  Var row_embed_, col_embed_;
};

}  // namespace saccade
