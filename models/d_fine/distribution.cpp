#include "models/d_fine/distribution.h"

namespace saccade {

BinScale make_bin_scale(const Var& up, const Var& scale, int64_t bins) {
  SACCADE_CHECK(bins >= 4 && bins % 2 == 0, "[make_bin_scale] {} bins, expected an even number, at least 4",
                bins);
  // (1 + end)^(k / half) - 1 for k = 0 ... half, on each side of 0; the outermost bins are at twice the end.
  const int64_t half = bins / 2 - 1;
  std::vector<float> exponents, signs;
  for (int64_t k = -half; k <= half; ++k) {
    exponents.push_back(static_cast<float>(std::abs(k)) / static_cast<float>(half));
    signs.push_back(k < 0 ? -1.0f : 1.0f);
  }
  auto table = [&](const std::vector<float>& values) {
    return Var(Tensor::from(Shape{std::ssize(values)}, values, up.device()));
  };
  const Var end = mul(abs(up), scale);
  const Var inner = mul(table(signs), add_scalar(exp(mul(table(exponents), log(add_scalar(end, 1)))), -1));
  return {concat({mul_scalar(end, -2), inner, mul_scalar(end, 2)}, 0), scale};
}

Var side_probabilities(const Var& logits) {
  return softmax(
      reshape(cast(logits, DType::kF32), {logits.dim(0), logits.dim(1), kSides, logits.dim(2) / kSides}));
}

Var boxes_of_sides(const Var& probabilities, const Var& references, const BinScale& bins) {
  const int last[] = {-1};
  const Var distances = sum(mul(probabilities, bins.values), last);  // [N, Q, 4]
  const Var centre = slice(references, -1, 0, 2), size = slice(references, -1, 2, 4);
  const Var unit = div(size, bins.scale), half = mul_scalar(bins.scale, 0.5);
  const Var low = sub(centre, mul(add(slice(distances, -1, 0, 2), half), unit)),
            high = add(centre, mul(add(slice(distances, -1, 2, 4), half), unit));
  return concat({mul_scalar(add(low, high), 0.5), sub(high, low)}, -1);
}

Var side_targets(const Var& references, const Var& truth, const BinScale& bins) {
  const Var centre = slice(references, -1, 0, 2), half_truth = mul_scalar(slice(truth, -1, 2, 4), 0.5),
            true_centre = slice(truth, -1, 0, 2);
  const Var unit = add_scalar(div(slice(references, -1, 2, 4), bins.scale), 1e-16);
  const Var half = mul_scalar(bins.scale, 0.5);
  const Var low = sub(div(sub(centre, sub(true_centre, half_truth)), unit), half),
            high = sub(div(sub(add(true_centre, half_truth), centre), unit), half);
  const Var place = reshape(concat({low, high}, -1), {references.dim(0), kSides, 1});
  // Between two bins the probability of the lower one falls from 1 to 0 and that of the upper one rises.
  const int64_t R = bins.values.dim(0) - 1;
  const Var lower = slice(bins.values, 0, 0, R), gap = sub(slice(bins.values, 0, 1, R + 1), lower);
  const Var risen = clamp(div(sub(place, lower), gap), 0, 1);  // [P, 4, R]
  const Var one(Tensor::full({references.dim(0), kSides, 1}, 1, DType::kF32, references.device())),
      none(Tensor::zeros({references.dim(0), kSides, 1}, DType::kF32, references.device()));
  return sub(concat({one, risen}, -1), concat({risen, none}, -1));
}

}  // namespace saccade
