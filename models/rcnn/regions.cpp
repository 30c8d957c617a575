#include "models/rcnn/regions.h"

#include "core/kernels/nms/nms.h"
#include "core/kernels/roi_levels/roi_levels.h"
#include "models/common/token_maps.h"

namespace saccade {
namespace {

// The first level has boxes of up to twice this many strides.
constexpr int64_t kLevelSide = 14;
constexpr double kPenalty = -1e30;

}  // namespace

Var suppressed(const Var& boxes, const Var& scores, const Var& groups, int64_t count, double threshold) {
  const NoGrad no_grad;
  const Tensor b = boxes.value().contiguous(), s = scores.value().contiguous();
  Tensor keep = Tensor::empty(s.shape(), DType::kBool, s.device());
  kernels::nms(b, s, groups.value().to(DType::kI64).contiguous(), threshold, keep);
  if (execution().observer)
    observe_kernel("nms", {b, s, groups.value()}, keep,
                   OpAttributes().add("groups", count).add("threshold", threshold));
  const Var penalty(Tensor::full(s.shape(), kPenalty, DType::kF32, s.device()));
  return add(Var(s), masked_fill(penalty, keep, 0));
}

Var without_flat(const Var& boxes, const Var& scores) {
  const Var sides = sub(slice(boxes, -1, 2, 4), slice(boxes, -1, 0, 2));
  const Var least = reshape(minimum(slice(sides, -1, 0, 1), slice(sides, -1, 1, 2)), scores.shape());
  const Var has_area = clamp(mul_scalar(least, 1e30), 0, 1);
  return add(scores, mul_scalar(add_scalar(has_area, -1), -kPenalty));
}

BestRows best_rows(const Var& scores, int64_t count) {
  return {best_tokens(reshape(scores, {scores.dim(0), scores.dim(1), 1}).value(), 1, count)};
}

Var stays(const Var& scores) { return clamp(add_scalar(mul_scalar(scores, 1e-20), 1), 0, 1); }

Tensor images_of_rows(const Var& rows) {
  const int64_t N = rows.dim(0), K = rows.dim(1);
  std::vector<int64_t> images;
  for (int64_t n = 0; n < N; ++n) images.insert(images.end(), static_cast<size_t>(K), n);
  Tensor all = Tensor::from<int64_t>({N * K}, images, rows.device());
  if (execution().observer) observe_kernel("images_of_rows", {rows.value()}, all, OpAttributes());
  return all;
}

Tensor whole_numbers(const Var& numbers) {
  Tensor whole = numbers.value().to(DType::kI64);
  if (execution().observer) observe_kernel("whole_numbers", {numbers.value()}, whole, OpAttributes());
  return whole;
}

Var cut_regions(const Vars& levels, const Tensor& boxes, const Tensor& images,
                const RoiAlignOptions& options) {
  const auto count = static_cast<int64_t>(levels.size());
  const auto side = static_cast<double>(kLevelSide * options.strides[0]);
  Tensor level = Tensor::empty({boxes.dim(0)}, DType::kI64, boxes.device());
  kernels::roi_levels(boxes, side, count, level);
  if (execution().observer)
    observe_kernel("roi_levels", {boxes}, level, OpAttributes().add("side", side).add("count", count));
  return roi_align(levels, boxes, level, images, options);
}

}  // namespace saccade
