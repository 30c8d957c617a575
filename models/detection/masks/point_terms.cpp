// Losses of masks at points (Kirillov et al. 2020, PointRend; Cheng et al. 2022, Mask2Former, section 3.3):
// for each pair three times as many random points as needed are drawn, most of the needed points are those
// with the least certain logits, and the others are drawn anew. "point_mask": the mean binary cross entropy,
// "point_dice": the Dice loss, both over the points.
#include <algorithm>

#include "autograd/scope.h"
#include "core/kernels/top_k/top_k.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"
#include "models/detection/masks/mask_pairs.h"
#include "models/detection/masks/true_masks.h"

namespace saccade {

namespace {

constexpr int64_t kCandidates = 3;  // per point
constexpr double kUncertain = 0.75;

// Returns the maps of the pairs, [P, h, w, 1], with one product per image and layer.
Var maps_of_pairs(const MaskFactors& factors, const MatchedQueries& matched) {
  const Shape s = factors.pixels.shape();  // [G, N, h, w, C]
  const int64_t Q = factors.queries.dim(2), C = s[4], cells = s[2] * s[3], P = std::ssize(matched.rows);
  const Var queries = index_select(reshape(factors.queries, {s[0] * s[1] * Q, C}), matched.indices);
  const Var pixels = reshape(factors.pixels, {s[0] * s[1], cells, C});
  Vars maps;
  for (int64_t begin = 0, end = 0; begin < P; begin = end) {
    const int64_t image = matched.rows[static_cast<size_t>(begin)] / Q;
    while (end < P && matched.rows[static_cast<size_t>(end)] / Q == image) ++end;
    maps.push_back(linear(slice(queries, 0, begin, end),
                          reshape(slice(pixels, 0, image, image + 1), {cells, C}), {}, Activation::kNone,
                          ProductDtype::kSums));
  }
  return reshape(add(in_sum_dtype(maps.size() == 1 ? maps[0] : concat(maps, 0)), factors.bias),
                 {P, s[2], s[3], 1});
}

// [P, K, 2]
Tensor choose_points(const Var& maps, const MatchedQueries& matched, int64_t layers, int64_t queries,
                     int64_t count) {
  NoGrad no_grad;
  const Device device = maps.device();
  const auto P = std::ssize(matched.rows), each = P / layers;
  const auto uncertain = std::max<int64_t>(1, static_cast<int64_t>(kUncertain * static_cast<double>(count)));
  const uint64_t key = mix_key(execution().rng_key, hash_name("mask points"));
  std::vector<PointRow> rows;
  for (int64_t p = 0; p < P; ++p) {
    const auto at = static_cast<size_t>(p);
    const int64_t layer = p / each, query = matched.rows[at] % queries;
    rows.push_back({matched.objects[at].image->image_id, layer << 20 | query});
  }
  const Tensor candidates = random_points(rows, kCandidates * count, mix_key(key, 0), device);
  const Var scores = neg(abs(sample_at(maps.detach(), candidates)));
  Tensor indices = Tensor::empty({P, uncertain}, DType::kI64, device);
  kernels::top_k(scores.value().to(DType::kF32).contiguous().reshape({P, kCandidates * count}), indices);
  const Var chosen = gather_rows(Var(candidates), indices);
  if (count == uncertain) return chosen.value();
  const Tensor fresh = random_points(rows, count - uncertain, mix_key(key, 1), device);
  return concat({chosen, Var(fresh)}, 1).value();
}

struct PointTerm : MaskTerm {
  bool applies(const LayerPrediction& predicted) const override {
    return predicted.mask_factors.pixels.defined();
  }
  std::shared_ptr<const MaskPairs> pairs(const LayerPrediction& predicted,
                                         const MatchedQueries& matched) const override {
    const int64_t P = std::ssize(matched.rows);
    if (P == 0 || matched.at_points) return matched.at_points;
    const MaskFactors& factors = predicted.mask_factors;
    const int64_t h = factors.pixels.dim(2), w = factors.pixels.dim(3);
    const int64_t count = std::max(h, h * w / factors.cells_per_point);
    const Var maps = maps_of_pairs(factors, matched);
    const Tensor points = choose_points(maps, matched, predicted.boxes.dim(0), predicted.boxes.dim(2), count);
    const Tensor rows = Tensor::from<int64_t>({P}, matched.object_rows, maps.device());
    auto pairs = std::make_shared<MaskPairs>();
    pairs->truth = matched.masks->at(rows, points);
    pairs->weights = index_select(Var(matched.masks->weights()), rows).value();
    pairs->logits = reshape(sample_at(maps, points), {P, count});
    return matched.at_points = pairs;
  }
};

[[maybe_unused]] const bool point_mask_registered =
    register_loss_term<MaskTermOf<PointTerm, mask_cross_entropy>>("point_mask", __FILE__);
[[maybe_unused]] const bool point_dice_registered =
    register_loss_term<MaskTermOf<PointTerm, mask_dice>>("point_dice", __FILE__);

}  // namespace
}  // namespace saccade
