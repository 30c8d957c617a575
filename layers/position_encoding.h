// Where the cells of a map are, and position encodings of the DETR family for padded feature maps. Cell (y, x) has its centre at
// ((x + 0.5) / width, (y + 0.5) / height).
#pragma once

#include "autograd/ops.h"
#include "layers/module.h"

namespace saccade {

// The centre of cell i of an axis of `length` cells, as a part of the axis.
template <class T>
T cell_centre(int64_t i, T length) {
  return (static_cast<T>(i) + T(0.5)) / length;
}

// All centres of a map as (x, y), in coordinates that run from `low` to `high` across it. f64 [1, H * W, 2]
Tensor cell_centres(MapSize map, double low, double high);

// The reference points of a map's own tokens [N, H * W, C] for layers that look around points, normalised by the
// map: [N, H * W, 1, 2] on the tokens' device, f32 (f64 with f64 tokens).
Var reference_points(const Var& tokens, MapSize map);

// Sine encoding (Carion et al. 2020) of a map of which the part valid[n] is not padding in image n: first half
// of the channels from y, second from x; channel pairs are the sine and cosine of the coordinate over
// temperature^(2i / (C/2)). Coordinates are (cell + 1 + offset) / (valid size + 1e-6) * 2 pi: offset is 0 in DETR and
// -0.5 in Deformable DETR. Cells in the padding repeat the last valid one.
// -> [N, H * W, C] f32; the batch is 1 when all images have the same valid size.
Tensor sine_position_encoding(std::span<const MapSize> valid, MapSize map, int64_t channels, double offset,
                              Device device, double temperature = 10000);

// Sine encoding of boxes or points in [0, 1]: x [.., K] -> [.., K * channels]; the coordinate times 2 pi
// (two-stage).
Tensor sine_box_encoding(const Tensor& x, int64_t channels);

// Learned encoding: row_embed and col_embed [50, C/2]; channels are (column, row), as in DETR.
class LearnedPositionEncoding : public Module {
 public:
  explicit LearnedPositionEncoding(int64_t channels);
  Var forward(MapSize map) const;  // [1, H * W, C]
  std::string type_name() const override { return "LearnedPositionEncoding"; }

 private:
  static constexpr int64_t kMaxCells = 50;
  Var row_embed_, col_embed_;
};

}  // namespace saccade
