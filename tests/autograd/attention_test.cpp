// Tests attention: tuned against generic kernels at sizes with several row blocks, with any number of
// threads, and rows without keys.
#include "core/kernels/attention/attention.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "autograd/var.h"
#include "tests/autograd/golden.h"

namespace saccade {
namespace {

struct AttentionProblem {
  Tensor q, k, v, mask, bias, dy;
  kernels::AttentionParams params;
};

AttentionProblem make_problem(int64_t N, int64_t Q, int64_t S, int64_t heads, int64_t D, int64_t Dv,
                              const Shape& bias, bool masked, double dropout) {
  Rng rng(mix_key(static_cast<uint64_t>(Q), static_cast<uint64_t>(S)));
  auto normal = [&](const Shape& shape) {
    Tensor t = Tensor::empty(shape);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.normal());
    return t;
  };
  AttentionProblem p;
  p.q = normal({N, Q, heads * D});
  p.k = normal({N, S, heads * D});
  p.v = normal({N, S, heads * Dv});
  p.dy = normal({N, Q, heads * Dv});
  if (bias.rank() > 0) p.bias = normal(bias);
  if (masked) {
    p.mask = Tensor::empty({N, S}, DType::kBool);
    for (int64_t i = 0; i < N * S; ++i)
      p.mask.data<bool>()[i] = rng.uniform() < 0.3 || i < S;  // image 0 has no key
  }
  p.params = {heads, 1 / std::sqrt(static_cast<double>(D)), dropout, 5, 9};
  return p;
}

// y, log_sum, dq, dk, dv, dbias
Tensors run(const AttentionProblem& p, bool generic) {
  Tensor y = p.dy.empty_like();
  Tensor log_sum = Tensor::empty({p.q.dim(0), p.params.heads, p.q.dim(1)});
  Tensors g{p.q.empty_like(), p.k.empty_like(), p.v.empty_like(),
            p.bias.defined() ? p.bias.empty_like() : Tensor()};
  y.fill(NAN);
  for (Tensor& t : g)
    if (t.defined()) t.fill(NAN);
  const auto& f = kernels::attention_forward;
  const auto& b = kernels::attention_backward;
  if (generic) {
    f.generic(p.q, p.k, p.v, p.mask, p.bias, p.params, y, log_sum);
    b.generic(p.q, p.k, p.v, p.mask, p.bias, p.params, log_sum, y, p.dy, g[0], g[1], g[2], g[3]);
  } else {
    f(p.q, p.k, p.v, p.mask, p.bias, p.params, y, log_sum);
    b(p.q, p.k, p.v, p.mask, p.bias, p.params, log_sum, y, p.dy, g[0], g[1], g[2], g[3]);
  }
  Tensors out{y, log_sum};
  for (Tensor& t : g)
    if (t.defined()) out.push_back(t);
  return out;
}

std::vector<AttentionProblem> problems() {
  return {
      make_problem(2, 101, 77, 2, 32, 32, {}, false, 0),
      make_problem(3, 50, 50, 2, 16, 16, {}, true, 0.25),
      make_problem(1, 13, 700, 1, 17, 33, {1, 1, 13, 700}, false, 0),
      make_problem(20, 49, 49, 3, 8, 8, {1, 3, 49, 49}, false, 0),
      make_problem(3, 20, 21, 2, 8, 24, {3, 1, 20, 21}, true, 0.1),
      make_problem(2, 1, 1, 1, 1, 1, {}, false, 0),
  };
}

// Both kernels sum some hundred f32 products in a different order and take one exponential.
TEST(Attention, TunedEqualsGeneric) {
  size_t number = 0;
  for (const AttentionProblem& p : problems()) {
    Tensors tuned = run(p, false), generic = run(p, true);
    for (size_t i = 0; i < tuned.size(); ++i) {
      if (i == 1 && p.mask.defined()) continue;  // -inf - -inf; the rows show in y
      EXPECT_LT(error_of(tuned[i], generic[i]), 2e-5) << "problem " << number << " output " << i;
    }
    ++number;
  }
}

// The results differ by one rounding to bf16 (2^-8 of the element) of nearly equal f32 sums.
TEST(Attention, TunedEqualsGenericInBf16) {
  for (AttentionProblem p : problems()) {
    for (Tensor* t : {&p.q, &p.k, &p.v, &p.dy}) *t = t->to(DType::kBF16);
    Tensors tuned = run(p, false), generic = run(p, true);
    for (size_t i = 0; i < tuned.size(); ++i) {
      if (i == 1 && p.mask.defined()) continue;
      EXPECT_LT(error_of(tuned[i], generic[i]), 6e-2) << "output " << i;
    }
  }
}

TEST(Attention, SameBitsOnAnyNumberOfThreads) {
  int before = omp_get_max_threads();
  for (const AttentionProblem& p : problems()) {
    omp_set_num_threads(1);
    Tensors alone = run(p, false);
    for (int threads : {2, 3, 7}) {
      omp_set_num_threads(threads);
      Tensors together = run(p, false);
      for (size_t i = 0; i < alone.size(); ++i)
        EXPECT_TRUE(same_bits(alone[i], together[i])) << threads << " threads, " << i;
    }
  }
  omp_set_num_threads(before);
}

TEST(Attention, RowsWithoutKeysAreZero) {
  AttentionProblem p = make_problem(2, 5, 20, 2, 8, 8, {}, true, 0);
  for (bool generic : {false, true}) {
    Tensors out = run(p, generic);
    for (double y : out[0].select(0, 0).to_vector<double>()) EXPECT_EQ(y, 0.0);
    for (size_t i = 2; i < 5; ++i)
      for (double d : out[i].select(0, 0).to_vector<double>()) EXPECT_EQ(d, 0.0) << i;
  }
}

// A NaN must reach the output, where the trainer looks for it.
TEST(Attention, NanComesOut) {
  AttentionProblem p = make_problem(1, 5, 20, 1, 8, 8, {}, false, 0);
  p.q.data<float>()[0] = NAN;
  for (bool generic : {false, true}) {
    Tensors out = run(p, generic);
    EXPECT_TRUE(std::isnan(out[0].to_vector<float>()[0]));
    EXPECT_FALSE(std::isnan(out[0].to_vector<float>()[8]));
    EXPECT_TRUE(std::isnan(out[3].to_vector<float>()[0]));
  }
}

// Checks the fraction of dropped weights, and that every row has a different mask.
TEST(Attention, DropoutRate) {
  kernels::AttentionParams params{.heads = 1, .scale = 1, .dropout = 0.3, .key = 3, .call = 4};
  int64_t dropped = 0, same = 0;
  constexpr int64_t kRows = 200, kKeys = 101;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t s = 0; s < kKeys; ++s) {
      bool zero = kernels::Dropout(params).factor_of(row, s, kKeys) == 0;
      dropped += zero;
      same += zero == (kernels::Dropout(params).factor_of(row + 1, s, kKeys) == 0);
    }
  }
  double n = static_cast<double>(kRows * kKeys);  // four standard deviations of a fraction are 0.013
  EXPECT_NEAR(static_cast<double>(dropped) / n, 0.3, 0.013);
  EXPECT_NEAR(static_cast<double>(same) / n, 0.58, 0.014);
}

}  // namespace
}  // namespace saccade
