#include "models/detr/anchor_decoder.h"

#include "layers/position_encoding.h"

namespace saccade {
namespace {

constexpr double kSmallestSide = 0.02;  // of a box that the positions are divided by

}  // namespace

AnchorDecoder::AnchorDecoder(const TransformerOptions& o, double temperature)
    : TransformerDecoder(o, false), dim_(o.dim), temperature_(temperature) {
  ref_point_head_ = make_child<Mlp>("ref_point_head", std::vector{2 * o.dim, o.dim, o.dim});
  // Both begin with a constant, so that the first layers look around the boxes.
  auto begin_with = [](double value) {
    return MlpOptions{
        .last = LinearOptions{.weight_init = init::constant(0), .bias_init = init::constant(value)}};
  };
  query_scale_ = make_child<Mlp>("query_scale", std::vector{o.dim, o.dim, o.dim}, begin_with(1));
  ref_anchor_head_ = make_child<Mlp>("ref_anchor_head", std::vector{o.dim, o.dim, int64_t{2}}, begin_with(0));
}

Var AnchorDecoder::run_layer(int64_t i, const Var& target, const Tensor& boxes, AttentionInput memory,
                             const QueryGroups& groups) {
  const Var sines = Var(sine_box_encoding(boxes, dim_ / 2, temperature_));  // x, y, w, h
  memory.query_position = query_position(i, target, boxes, sines);
  return layer(i)(target, ref_point_head_(sines), std::move(memory), groups);
}

// The sines of the centre, y before x as in the tokens' positions, times what the content says: a factor for
// every channel (not in the first layer, where the contents say nothing yet), and for each axis the size that
// it looks for, relative to the box's.
Var AnchorDecoder::query_position(int64_t i, const Var& target, const Tensor& boxes, const Var& sines) const {
  const int64_t half = dim_ / 2;
  Var sides = clamp(slice(Var(boxes), 2, 2, 4), kSmallestSide, 1);
  Var widen = div(sigmoid(ref_anchor_head_(target)), sides);  // x, y
  Var position = concat({mul(slice(sines, 2, half, dim_), slice(widen, 2, 1, 2)),
                         mul(slice(sines, 2, 0, half), slice(widen, 2, 0, 1))},
                        2);
  return i == 0 ? position : mul(position, query_scale_(target));
}

}  // namespace saccade
