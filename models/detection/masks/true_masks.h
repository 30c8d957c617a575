// The masks of a batch's objects, and the random points at which predictions are compared with them.
#pragma once

#include <vector>

#include "autograd/ops.h"
#include "core/types/target.h"
#include "models/detection/set_output.h"

namespace saccade {

// R masks, stacked image by image; an object without a mask has an empty one and weight 0.
class TrueMasks {
 public:
  // canvas: the size of the padded images
  TrueMasks(const std::vector<Target>& targets, ImageSize canvas, Device device);
  const Tensor& weights() const { return weights_; }  // f32 [R], 0 or 1
  // f32 [P, K], the values of the masks rows[p], i64 [P], at the points [P, K, 2]
  Tensor at(const Tensor& rows, const Tensor& points) const;
  // f32 [R, P], the values of all masks at the points [N, P, 2] of their images
  Tensor at(const Tensor& points_of_images) const;

 private:
  ImageSize canvas_;
  Tensor runs_, begins_, weights_, images_;
};

// Points drawn uniformly in the unit square, f32 [rows, count, 2] as (x, y): each row depends only on its
// image's id and its own number.
struct PointRow {
  int64_t image_id, number;
};
Tensor random_points(const std::vector<PointRow>& rows, int64_t count, uint64_t key, Device device);

// Samples bilinearly between the centres of a map's cells; outside them the edge values hold.
// map [P, h, w, C], points [P, K, 2] in [0, 1] across it -> [P, K, C]
Var sample_at(const Var& map, const Tensor& points);

// The logits of all queries' masks at the points [N, P, 2] of their images -> f32 [N, Q, P]
Tensor logits_at(const MaskFactors& factors, const Tensor& points_of_images);

}  // namespace saccade
