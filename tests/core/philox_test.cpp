#include "core/tensor/philox.h"

#include <gtest/gtest.h>

#include "core/kernels/random/random.h"

namespace saccade {
namespace {

// Known answers of Random123's kat_vectors for philox4x32-10: counter words, key words, result words.
TEST(Philox, KnownAnswers) {
  struct Case {
    uint32_t counter[4], key[2], expected[4];
  };
  for (const Case& c : {Case{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                        Case{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                             {0xffffffff, 0xffffffff},
                             {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                        Case{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                             {0xa4093822, 0x299f31d0},
                             {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}) {
    uint64_t key = c.key[0] | uint64_t{c.key[1]} << 32;
    uint64_t lo = c.counter[0] | uint64_t{c.counter[1]} << 32,
             hi = c.counter[2] | uint64_t{c.counter[3]} << 32;
    Philox r = Philox::generate(key, hi, lo);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(r.x[i], c.expected[i]) << i;
  }
}

TEST(Philox, UniformStaysBelowOne) {
  EXPECT_EQ(uniform_from_bits(0), 0.0f);
  EXPECT_LT(uniform_from_bits(0xFFFFFFFFu), 1.0f);
}

TEST(Rng, StreamsAreReproducibleAndDiffer) {
  Rng a(7, 1), b(7, 1), c(7, 2), d(8, 1);
  int equal_c = 0, equal_d = 0;
  for (int i = 0; i < 100; ++i) {
    uint32_t x = a.next();
    EXPECT_EQ(x, b.next());
    equal_c += x == c.next();
    equal_d += x == d.next();
  }
  EXPECT_EQ(equal_c, 0);
  EXPECT_EQ(equal_d, 0);
}

// Standard errors with n = 100,000: mean of a uniform 0.0009, of a normal 0.0032, its variance 0.0045. The
// tolerances are five of them.
TEST(Rng, Moments) {
  Rng rng(1);
  double u = 0, m = 0, s = 0;
  constexpr int kN = 100000;
  for (int i = 0; i < kN; ++i) {
    double v = rng.uniform(), g = rng.normal();
    ASSERT_TRUE(v >= 0 && v < 1);
    u += v / kN;
    m += g / kN;
    s += g * g / kN;
  }
  EXPECT_NEAR(u, 0.5, 0.0046);
  EXPECT_NEAR(m, 0, 0.016);
  EXPECT_NEAR(s, 1, 0.023);
}

TEST(Rng, BelowCoversItsRange) {
  Rng rng(3);
  int64_t seen[5] = {};
  for (int i = 0; i < 1000; ++i) {
    int64_t v = rng.below(5);
    ASSERT_TRUE(v >= 0 && v < 5);
    ++seen[v];
  }
  for (int64_t count : seen) EXPECT_GT(count, 120);
}

TEST(Dropout, KeepsTheStatedShare) {
  Tensor x = Tensor::full({1000, 1000}, 1), y = x.empty_like();
  kernels::dropout(x, 0.1, 42, 0, 0, y);
  int64_t dropped = 0;
  for (float v : y.to_vector<float>()) dropped += v == 0;
  EXPECT_NEAR(static_cast<double>(dropped) / 1e6, 0.1, 0.0015);  // five standard errors
}

TEST(Dropout, TunedKernelDrawsTheGenericMask) {
  Rng rng(1);
  for (int64_t n : {1, 31, 32, 1000, 100003}) {
    Tensor x = Tensor::empty({n});
    for (int64_t i = 0; i < n; ++i) x.data<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      for (double p : {0.1, 0.5, 1.0}) {
        Tensor v = x.to(dtype), a = v.empty_like(), b = v.empty_like();
        // The key and the number of the call have bits in both of their halves of 32 bits, so a kernel that
        // drops a half draws another mask.
        kernels::dropout(v, p, 0x9E3779B97F4A7C15ull, (uint64_t{3} << 32) + 5, 0, a);
        kernels::dropout.generic(v, p, 0x9E3779B97F4A7C15ull, (uint64_t{3} << 32) + 5, 0, b);
        EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>()) << n << " " << name_of(dtype) << " " << p;
      }
    }
  }
}

}  // namespace
}  // namespace saccade
