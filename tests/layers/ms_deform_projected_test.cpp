// Tests deformable attention that samples tokens before it projects them, against the two kernels in f64.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/scope.h"
#include "core/kernels/ms_deform_attn/ms_deform_projected.h"
#include "core/runtime/parallel.h"
#include "layers/attention.h"
#include "tests/compare_tensors.h"
#include "tests/normal_tensor.h"

namespace saccade {
namespace {

struct Shapes {
  int64_t Q, M, D, C, P, R;
};

struct Projected {
  FeatureLevels levels{{40, 30}, {20, 15}, {10, 8}};
  Tensor tokens, padding, w, bias, reference, offsets, logits;

  Projected(const Shapes& s, bool padded) {
    constexpr int64_t N = 2;
    const int64_t S = levels.tokens(), L = levels.size();
    Rng rng(7);
    tokens = normal_tensor(rng, {N, S, s.C});
    w = normal_tensor(rng, {s.M * s.D, s.C});
    bias = normal_tensor(rng, {s.M * s.D});
    reference = Tensor::empty({N, s.Q, L, s.R});  // some points are outside the maps
    for (int64_t i = 0; i < reference.numel(); ++i)
      reference.data<float>()[i] = static_cast<float>(rng.uniform(0, 1));
    offsets = normal_tensor(rng, {N, s.Q, s.M, L, s.P, 2});
    logits = normal_tensor(rng, {N, s.Q, s.M, L * s.P});
    if (!padded) return;
    padding = Tensor::empty({N, S}, DType::kBool);
    for (int64_t i = 0; i < padding.numel(); ++i) padding.data<bool>()[i] = i >= S && i % 3 == 0;
  }
  Tensor run(DType dtype, bool generic) const {
    const auto& f = kernels::ms_deform_projected;
    const auto to = [&](const Tensor& t) { return t.to(dtype); };
    Tensor y = Tensor::full({tokens.dim(0), offsets.dim(1), w.dim(0)}, NAN, dtype);
    if (generic)
      f.generic(to(tokens), padding, to(w), to(bias), to(reference), to(offsets), to(logits), levels, y);
    else
      f(to(tokens), padding, to(w), to(bias), to(reference), to(offsets), to(logits), levels, y);
    return y;
  }
};

// Blocks of queries that are full or not, channels in full slices or not, points that fill a vector or not.
TEST(MsDeformProjected, EqualsTheTwoKernelsInF64) {
  for (const Shapes& s :
       {Shapes{26, 4, 16, 64, 4, 2}, {24, 2, 32, 144, 4, 4}, {5, 2, 64, 256, 8, 4}, {1, 8, 32, 256, 1, 2}}) {
    for (bool padded : {false, true}) {
      const Projected p(s, padded);
      const Tensor want = p.run(DType::kF64, true);
      const double ours = error_of(p.run(DType::kF32, false), want),
                   theirs = error_of(p.run(DType::kF32, true), want);
      SCOPED_TRACE(s.C);
      EXPECT_LT(ours, std::max(2e-6, 1.5 * theirs));  // the rounding of sums of as many terms
      EXPECT_FALSE(
          same_bits(p.run(DType::kF32, false), p.run(DType::kF32, true)));  // the tokens were sampled
    }
  }
}

TEST(MsDeformProjected, ProjectsTheTokensForManyQueries) {
  const Projected p({200, 2, 16, 32, 4, 2}, true);
  EXPECT_TRUE(same_bits(p.run(DType::kF32, false), p.run(DType::kF32, true)));
}

TEST(MsDeformProjected, ThreadsChangeNoBit) {
  const Projected p({26, 4, 16, 64, 4, 2}, true);
  const Tensor want = p.run(DType::kF32, false);
  const int threads = thread_count();
  for (int count : {1, 3}) {
    set_thread_count(count);
    EXPECT_TRUE(same_bits(p.run(DType::kF32, false), want)) << count << " threads";
  }
  set_thread_count(threads);
}

TEST(MsDeformProjected, TheLayerGivesWhatItGivesWithGradients) {
  const Projected p({26, 4, 16, 64, 4, 2}, true);
  const auto layer = attention_layers().find("ms_deform_attn").make({64, 4, p.levels.size(), 4, 0}, Args());
  layer->initialize(3);
  AttentionInput in;
  in.query = Var(normal_tensor({2, 26, 64}, 5));
  in.value = Var(p.tokens);
  in.reference_points = Var(p.reference);
  in.padding_mask = p.padding;
  in.levels = p.levels;
  const Var with = layer->forward(in);
  NoGrad no_grad;
  EXPECT_LT(error_of(layer->forward(in).value(), with.value()), 1e-5);
}

}  // namespace
}  // namespace saccade
