// Deformable convolution (Dai et al. 2017) is the special case of deformable attention with a head per tap, M
// = R S, one point per head, K = 1, and the identity as value projection: the weight of a single point is 1,
// and the heads' output projections W_m are the taps of the convolution. Tested against torchvision's
// deform_conv2d (scripts/golden/make_dat.py), which walks the taps directly.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops.h"
#include "tests/autograd/golden.h"

namespace saccade {
namespace {

constexpr int64_t kRows = 2, kColumns = 3;  // R x S taps

// x [N, H, W, C], weight [O, C, R, S], bias [O], offsets [N, OH, OW, R S, 2] as (y, x) in cells
Var deformable_convolution(const Var& x, const Var& weight, const Var& bias, const Var& offsets) {
  int64_t N = x.dim(0), H = x.dim(1), W = x.dim(2), C = x.dim(3), OH = offsets.dim(1), OW = offsets.dim(2);
  int64_t M = kRows * kColumns, Q = OH * OW, O = weight.dim(0);
  // Every head reads all channels.
  Var value = expand(reshape(x, {N, H * W, 1, C}), {N, H * W, M, C});
  // A query's reference point is the cell of its first tap; the regular grid of taps joins the offsets.
  std::vector<double> centres, taps;
  for (int64_t y = 0; y < OH; ++y)
    for (int64_t i = 0; i < OW; ++i)
      for (auto [at, size] : {std::pair{i, W}, {y, H}})
        centres.push_back((static_cast<double>(at) + 0.5) / static_cast<double>(size));
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t s = 0; s < kColumns; ++s)
      for (int64_t at : {s, r}) taps.push_back(static_cast<double>(at));
  Tensor reference = Tensor::from<double>({1, Q, 1, 2}, centres).to(x.dtype()).expand({N, Q, 1, 2});
  Tensor grid = Tensor::from<double>({1, 1, M, 1, 1, 2}, taps).to(x.dtype());
  Var yx = reshape(offsets, {N, Q, M, 1, 1, 2});
  Var xy = concat({slice(yx, -1, 1, 2), slice(yx, -1, 0, 1)}, -1);
  Var logits(Tensor::zeros({N, Q, M, 1}, x.dtype()));
  FeatureLevels levels{{H, W}};
  Var heads = ms_deform_attn(value, Var(reference), add(xy, Var(grid)), logits, levels);  // [N, Q, M C]
  Var output = reshape(permute(weight, std::vector<int>{0, 2, 3, 1}), {O, M * C});  // the W_m side by side
  return reshape(linear(heads, output, bias), {N, OH, OW, O});
}

void expect_near(const Tensor& got, const Tensor& want, const char* name) {
  ASSERT_EQ(got.shape(), want.shape()) << name;
  auto a = got.to_vector<float>(), b = want.to_vector<float>();
  // f32 sums of 24 products of order 1; gradients sum over 16 queries.
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4) << name << " " << i;
}

TEST(DeformableConvolution, IsDeformableAttentionWithAHeadPerTap) {
  Golden golden("dat/deform_conv.safetensors");
  Var x(golden["x"], true), weight(golden["weight"], true), offsets(golden["offsets"], true);
  Var y = deformable_convolution(x, weight, Var(golden["bias"]), offsets);
  expect_near(y.value(), golden["y"], "y");
  backward(y, golden["dy"]);
  expect_near(x.grad(), golden["dx"], "dx");
  expect_near(weight.grad(), golden["dweight"], "dweight");
  expect_near(offsets.grad(), golden["doffsets"], "doffsets");
}

TEST(DeformableConvolution, WithoutOffsetsIsConvolution) {
  Golden golden("dat/deform_conv.safetensors");
  Var x(golden["x"]), weight(golden["weight"]), bias(golden["bias"]);
  Var y = deformable_convolution(x, weight, bias, Var(Tensor::zeros(golden["offsets"].shape())));
  expect_near(y.value(), conv2d(x, weight, bias).value(), "y");
}

}  // namespace
}  // namespace saccade
