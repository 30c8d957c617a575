// Tests the feature pyramid against its equations in plain loops.
#include "models/pyramid/fpn.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/tensor/philox.h"

namespace saccade {
namespace {

using Map = std::vector<float>;

Tensor random_map(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.normal());
  return t;
}

// Computes a convolution with a padding of half its kernel, [N, H, W, C].
Tensor convolved(const Tensor& x, const Fpn& fpn, const std::string& name, int64_t stride) {
  Tensor weight, bias;
  for (const NamedTensor& t : fpn.named_tensors()) {
    if (t.name == name + ".weight") weight = t.var.value();
    if (t.name == name + ".bias") bias = t.var.value();
  }
  EXPECT_TRUE(weight.defined()) << name;
  const int64_t kernel = weight.dim(2), pad = kernel / 2;
  Tensor y =
      Tensor::empty({x.dim(0), (x.dim(1) - 1) / stride + 1, (x.dim(2) - 1) / stride + 1, weight.dim(0)});
  float* out = y.data<float>();
  const Map in = x.to_vector<float>(), w = weight.to_vector<float>(), b = bias.to_vector<float>();
  for (int64_t n = 0; n < y.dim(0); ++n)
    for (int64_t i = 0; i < y.dim(1); ++i)
      for (int64_t j = 0; j < y.dim(2); ++j)
        for (int64_t o = 0; o < y.dim(3); ++o) {
          double sum = b[static_cast<size_t>(o)];
          for (int64_t r = 0; r < kernel; ++r)
            for (int64_t s = 0; s < kernel; ++s) {
              const int64_t row = i * stride + r - pad, column = j * stride + s - pad;
              if (row < 0 || row >= x.dim(1) || column < 0 || column >= x.dim(2)) continue;
              for (int64_t c = 0; c < x.dim(3); ++c)
                sum +=
                    static_cast<double>(
                        in[static_cast<size_t>(((n * x.dim(1) + row) * x.dim(2) + column) * x.dim(3) + c)]) *
                    static_cast<double>(
                        w[static_cast<size_t>(((o * x.dim(3) + c) * kernel + r) * kernel + s)]);
            }
          *out++ = static_cast<float>(sum);
        }
  return y;
}

// Computes lower += the nearest cell of upper.
void add_upsampled(Tensor& lower, const Tensor& upper) {
  float* p = lower.data<float>();
  const float* u = upper.data<float>();
  const int64_t H = lower.dim(1), W = lower.dim(2), C = lower.dim(3);
  for (int64_t n = 0; n < lower.dim(0); ++n)
    for (int64_t i = 0; i < H; ++i)
      for (int64_t j = 0; j < W; ++j)
        for (int64_t c = 0; c < C; ++c)
          *p++ +=
              u[((n * upper.dim(1) + i * upper.dim(1) / H) * upper.dim(2) + j * upper.dim(2) / W) * C + c];
}

void expect_near(const Var& got, const Tensor& expected, const char* what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const Map a = got.value().to_vector<float>(), b = expected.to_vector<float>();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << what << " " << i;
}

using Extra = FpnOptions::Extra;

class FpnLevels : public testing::TestWithParam<std::tuple<Extra, bool>> {};

TEST_P(FpnLevels, FollowTheEquations) {
  const auto [extra, with_relu] = GetParam();
  Fpn fpn({3, 5}, {.channels = 4, .extra_levels = 2, .extra = extra, .extra_relu = with_relu});
  fpn.initialize(1);
  for (const NamedTensor& t : fpn.named_tensors())
    if (t.name.ends_with("bias")) Var(t.var).value().copy_from(random_map(t.var.shape(), 3));
  const Tensor fine = random_map({2, 7, 10, 3}, 1), coarse = random_map({2, 4, 5, 5}, 2);
  const Vars got = fpn.forward({Var(fine), Var(coarse)});
  ASSERT_EQ(got.size(), 4U);
  const Tensor upper = convolved(coarse, fpn, "lateral_convs.1.conv", 1);
  Tensor lower = convolved(fine, fpn, "lateral_convs.0.conv", 1);
  add_upsampled(lower, upper);
  expect_near(got[0], convolved(lower, fpn, "fpn_convs.0.conv", 1), "the first");
  const Tensor last = convolved(upper, fpn, "fpn_convs.1.conv", 1);
  expect_near(got[1], last, "the second");
  ASSERT_EQ(got[2].shape(), (Shape{2, 2, 3, 4}));
  ASSERT_EQ(got[3].shape(), (Shape{2, 1, 2, 4}));
  if (extra == Extra::kMaxPool) {
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t c = 0; c < 4; ++c)
        EXPECT_EQ(got[2].value().select(0, 1).select(0, 1).select(0, j).select(0, c).item(),
                  got[1].value().select(0, 1).select(0, 2).select(0, 2 * j).select(0, c).item());
    return;
  }
  Tensor third = convolved(extra == Extra::kConvOnInput ? coarse : last, fpn, "fpn_convs.2.conv", 2);
  expect_near(got[2], third, "the third");
  if (with_relu)
    for (int64_t i = 0; i < third.numel(); ++i)
      third.data<float>()[i] = std::max(third.data<float>()[i], 0.0f);
  expect_near(got[3], convolved(third, fpn, "fpn_convs.3.conv", 2), "the fourth");
}

INSTANTIATE_TEST_SUITE_P(Ways, FpnLevels,
                         testing::Combine(testing::Values(Extra::kMaxPool, Extra::kConvOnInput,
                                                          Extra::kConvOnPyramid),
                                          testing::Bool()));

TEST(Fpn, HasThePublishedParameters) {
  EXPECT_EQ(Fpn({256, 512, 1024, 2048}, {.extra_levels = 1}).parameter_count(), 3344384);
  EXPECT_EQ(Fpn({512, 1024, 2048}, {.extra_levels = 2, .extra = Extra::kConvOnInput}).parameter_count(),
            37968692 - 6463220 - 23508032);
  Fpn fpn({3, 5}, {.channels = 4});
  EXPECT_THROW(fpn.forward({Var(Tensor::zeros({1, 8, 8, 3})), Var(Tensor::zeros({1, 3, 4, 5}))}), Error);
}

}  // namespace
}  // namespace saccade
