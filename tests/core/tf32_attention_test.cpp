// Tests attention with tf32 products on the GPU against the exact one on the CPU, and, in all kinds of
// arithmetic, its backward passes with five products and with runs of queries, and neighbourhood attention.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/kernels/attention/attention.h"
#include "core/kernels/neighbourhood_attention/neighbourhood_attention.h"
#include "core/kernels/window_attention/window_attention.h"
#include "core/tensor/device.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"
#include "tests/normal_tensor.h"

namespace saccade {
namespace {

// The CPU ignores the mode.
class Tf32Attention : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
    execution().math = MathMode::kTf32;
  }
  void TearDown() override { execution().math = MathMode::kExact; }
};

// The largest difference relative to the root mean square of what is expected and, where results are rounded,
// to their own size.
double relative_error(const Tensor& got, const Tensor& expected, bool rounded = false) {
  auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  double worst = 0, square = 0;
  for (double x : b) square += std::isfinite(x) ? x * x : 0;
  const double size = std::sqrt(square / static_cast<double>(b.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // infinities too
    const double off = std::abs(a[i] - b[i]) / (size + (rounded ? std::abs(b[i]) : 0));
    worst = std::isnan(a[i]) ? INFINITY : std::max(worst, off);
  }
  return worst;
}

// Rounding a factor to tf32 is off by at most 2^-11; a score of size 4 by some 2e-3, and so are the weights.
constexpr double kTf32Rounding = 2e-2;
// Errors of exact arithmetic would be smaller than this, and show that tf32 was not used.
constexpr double kExactTf32 = 2e-5;

void expect_rounded(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LT(relative_error(got[i], expected[i]), kTf32Rounding) << "result " << i;
    EXPECT_GT(relative_error(got[i], expected[i]), kExactTf32) << "result " << i;
  }
}

TEST_F(Tf32Attention, NearTheExactOne) {
  struct Size {
    int64_t Q, S, D;
    double dropout;
  };
  for (auto [Q, S, D, dropout] :
       {Size{40, 70, 16, 0}, Size{35, 66, 32, 0.2}, Size{18, 70, 64, 0}, Size{34, 35, 128, 0}}) {
    auto run = [&](Device device) {
      Rng rng(11);
      Tensor q = normal_tensor(rng, {1, Q, 2 * D}).to(device),
             k = normal_tensor(rng, {1, S, 2 * D}).to(device),
             v = normal_tensor(rng, {1, S, 2 * D}).to(device),
             dy = normal_tensor(rng, {1, Q, 2 * D}).to(device),
             bias = normal_tensor(rng, {1, 1, Q, S}).to(device);
      kernels::AttentionParams params{2, 1 / std::sqrt(static_cast<double>(D)), dropout, 5, 9};
      Tensor y = dy.empty_like(), log_sum = Tensor::empty({1, 2, Q}, DType::kF32, device);
      Tensor dq = q.empty_like(), dk = k.empty_like(), dv = v.empty_like(), dbias = bias.empty_like();
      kernels::attention_forward(q, k, v, {}, bias, params, y, log_sum);
      kernels::attention_backward(q, k, v, {}, bias, params, log_sum, y, dy, dq, dk, dv, dbias);
      return std::vector<Tensor>{y, dq, dk, dv, dbias};
    };
    SCOPED_TRACE(D);
    expect_rounded(run(Device::kCuda), run(Device::kCpu));
  }
}

// There are more than one tile of keys, odd sizes, and keys that take no part. The last row has so many heads
// that a block owns several tiles of keys.
TEST_F(Tf32Attention, FiveProductsNearTheGenericGradients) {
  constexpr int64_t kManyHeads = 133;
  struct Size {
    int64_t Q, S, heads, D, Dv;
    double dropout;
  };
  struct Kind {
    const char* name;
    DType dtype;
    MathMode math;
    double tolerance;  // bf16: weights and their gradients are rounded by 2^-9 before they are summed
  };
  for (Size s : {Size{37, 150, 2, 16, 12, 0.2}, Size{70, 131, 1, 32, 32, 0}, Size{66, 70, 1, 33, 64, 0.3},
                 Size{35, 70, 1, 128, 72, 0}, Size{3, 140, kManyHeads, 2, 3, 0}}) {
    for (const Kind& kind : {Kind{"f32", DType::kF32, MathMode::kExact, 2e-5},
                             Kind{"tf32", DType::kF32, MathMode::kTf32, kTf32Rounding},
                             Kind{"bf16", DType::kBF16, MathMode::kExact, 5e-2}}) {
      if (s.heads == kManyHeads && kind.math == MathMode::kTf32) continue;  // slow to emulate
      SCOPED_TRACE(fmt::format("{}, heads of {}", kind.name, s.D));
      execution().math = kind.math;
      auto run = [&](Device device) {
        Rng rng(13);
        auto draw = [&](int64_t rows, int64_t size) {
          return normal_tensor(rng, {1, rows, s.heads * size}).to(kind.dtype).to(device);
        };
        Tensor q = draw(s.Q, s.D), k = draw(s.S, s.D), v = draw(s.S, s.Dv), dy = draw(s.Q, s.Dv), none;
        Tensor mask = Tensor::empty({1, s.S}, DType::kBool);
        for (int64_t i = 0; i < mask.numel(); ++i) mask.data<bool>()[i] = i % 7 == 3 || i >= mask.numel() - 9;
        mask = mask.to(device);
        kernels::AttentionParams params{s.heads, 1 / std::sqrt(static_cast<double>(s.D)), s.dropout, 5, 9};
        Tensor y = dy.empty_like(), log_sum = Tensor::empty({1, s.heads, s.Q}, DType::kF32, device);
        Tensor dq = q.empty_like(), dk = k.empty_like(), dv = v.empty_like();
        kernels::attention_forward(q, k, v, mask, {}, params, y, log_sum);
        kernels::attention_backward(q, k, v, mask, {}, params, log_sum, y, dy, dq, dk, dv, none);
        return std::vector<Tensor>{dq, dk, dv};
      };
      const std::vector<Tensor> got = run(Device::kCuda), want = run(Device::kCpu);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(relative_error(got[i], want[i], true), kind.tolerance) << "result " << i;
    }
  }
}

// Many queries have few keys, so several blocks share the keys.
TEST_F(Tf32Attention, RunsOfQueriesNearTheGenericGradients) {
  for (auto [Q, has_bias] : {std::pair{int64_t{600}, true}, {int64_t{2100}, false}}) {
    for (const auto& [dtype, tolerance] : {std::pair{DType::kF32, 2e-5}, {DType::kBF16, 5e-2}}) {
      SCOPED_TRACE(fmt::format("{} queries, {}", Q, name_of(dtype)));
      execution().math = MathMode::kExact;
      auto run = [&, Q = Q, has_bias = has_bias, dtype = dtype](Device device) {
        constexpr int64_t kHeads = 2, kKeys = 9, kSize = 6;
        Rng rng(19);
        auto draw = [&](int64_t rows) {
          return normal_tensor(rng, {1, rows, kHeads * kSize}).to(dtype).to(device);
        };
        Tensor q = draw(Q), k = draw(kKeys), v = draw(kKeys), dy = draw(Q), bias, dbias;
        if (has_bias) {
          bias = normal_tensor(rng, {1, kHeads, Q, kKeys}).to(device);
          dbias = bias.empty_like();
        }
        kernels::AttentionParams params{kHeads, 0.4, 0, 0, 0};
        Tensor y = dy.empty_like(), log_sum = Tensor::empty({1, kHeads, Q}, DType::kF32, device);
        Tensor dq = q.empty_like(), dk = k.empty_like(), dv = v.empty_like();
        kernels::attention_forward(q, k, v, {}, bias, params, y, log_sum);
        kernels::attention_backward(q, k, v, {}, bias, params, log_sum, y, dy, dq, dk, dv, dbias);
        return std::vector<Tensor>{dq, dk, dv};
      };
      const std::vector<Tensor> got = run(Device::kCuda), want = run(Device::kCpu);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(relative_error(got[i], want[i], true), tolerance) << "result " << i;
    }
  }
}

// The windows have one tile or several, with fillers and regions.
TEST_F(Tf32Attention, WindowsNearTheExactOnes) {
  struct Size {
    int64_t D, window;
  };
  for (auto [D, window] : {Size{16, 7}, Size{32, 7}, Size{64, 3}, Size{128, 3}, Size{32, 9}}) {
    auto run = [&](Device device) {
      Rng rng(11);
      const int64_t height = window + 1, width = window - 1, side = 2 * window - 1;
      kernels::WindowParams params{2, window, 2, 1 / std::sqrt(static_cast<double>(D))};
      kernels::WindowGeometry map(height, width, params);
      Tensor qkv = normal_tensor(rng, {2, height, width, 6 * D}).to(device),
             table = normal_tensor(rng, {side * side, 2}).to(device),
             padding = normal_tensor(rng, {6 * D}).to(device),
             dy = normal_tensor(rng, {2, height, width, 2 * D}).to(device);
      Tensor y = dy.empty_like(),
             log_sum = Tensor::empty({2, map.count(), 2, window * window}, DType::kF32, device);
      Tensor dqkv = qkv.empty_like(), dtable = table.empty_like(), dpadding = padding.empty_like();
      kernels::window_attention_forward(qkv, table, padding, {}, params, y, log_sum);
      kernels::window_attention_backward(qkv, table, padding, {}, params, log_sum, dy, dqkv, dtable,
                                         dpadding);
      return std::vector<Tensor>{y, dqkv, dtable, dpadding};
    };
    SCOPED_TRACE(fmt::format("heads of {}, window {}", D, window));
    expect_rounded(run(Device::kCuda), run(Device::kCpu));
  }
}

// The maps of neighbourhood attention's kernels have last tiles that begin within the ones before, keys that
// more queries see near the edges, and ignored keys.
struct NeighbourhoodMap {
  int64_t images, height, width, heads, D, window;
  bool mask, table;
};

// y, lse, dqkv, dtable
std::vector<Tensor> neighbourhood_results(const NeighbourhoodMap& m, DType dtype, Device device) {
  Rng rng(17);
  const int64_t C = m.heads * m.D, side = 2 * m.window - 1;
  auto draw = [&](const Shape& shape, DType type) { return normal_tensor(rng, shape).to(type).to(device); };
  const Tensor qkv = draw({m.images, m.height, m.width, 3 * C}, dtype),
               dy = draw({m.images, m.height, m.width, C}, dtype);
  Tensor table, mask, dtable;
  if (m.table) {
    table = draw({m.heads, side, side}, DType::kF32);
    dtable = table.empty_like();
  }
  if (m.mask) {
    mask = Tensor::empty({m.images, m.height, m.width}, DType::kBool);
    for (int64_t i = 0; i < mask.numel(); ++i)
      mask.data<bool>()[i] = i % 5 == 2 || (i / m.width % m.height < 8 && i % m.width < 8);
    mask = mask.to(device);
  }
  const kernels::NeighbourhoodParams params{m.heads, m.window, 1 / std::sqrt(static_cast<double>(m.D))};
  Tensor y = dy.empty_like(), dqkv = qkv.empty_like(),
         lse = Tensor::empty({m.images, m.heads, m.height, m.width}, DType::kF32, device);
  kernels::neighbourhood_attention_forward(qkv, table, mask, params, y, lse);
  kernels::neighbourhood_attention_backward(qkv, table, mask, params, lse, dy, dqkv, dtable);
  std::vector<Tensor> results{y, lse, dqkv};
  if (m.table) results.push_back(dtable);
  return results;
}

TEST_F(Tf32Attention, NeighbourhoodsNearTheCpu) {
  struct Kind {
    const char* name;
    DType dtype;
    MathMode math;
    double tolerance;  // bf16: weights and their gradients are rounded by 2^-9 before they are summed
  };
  for (const NeighbourhoodMap& m : {
           NeighbourhoodMap{1, 20, 22, 1, 32, 7, true, true},  // keys that 17 queries of an axis see
           NeighbourhoodMap{1, 16, 9, 1, 16, 7, false, true},
           NeighbourhoodMap{1, 7, 17, 1, 8, 7, false, false},  // one row of tiles
           NeighbourhoodMap{1, 13, 14, 1, 64, 13, true, true},
           NeighbourhoodMap{1, 9, 9, 1, 128, 3, true, true},
           NeighbourhoodMap{2, 8, 9, 3, 5, 1, false, true},  // rows that cannot be read in packs
       }) {
    for (const Kind& kind :
         {Kind{"f32", DType::kF32, MathMode::kExact, 2e-5}, Kind{"tf32", DType::kF32, MathMode::kTf32, 2e-2},
          Kind{"bf16", DType::kBF16, MathMode::kExact, 5e-2}}) {
      if (kind.math == MathMode::kTf32 && m.D != 32) continue;  // slow to emulate
      SCOPED_TRACE(
          fmt::format("{}, {} x {}, heads of {}, window {}", kind.name, m.height, m.width, m.D, m.window));
      execution().math = kind.math;
      const std::vector<Tensor> got = neighbourhood_results(m, kind.dtype, Device::kCuda),
                                want = neighbourhood_results(m, kind.dtype, Device::kCpu);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(relative_error(got[i], want[i], true), kind.tolerance) << "result " << i;
    }
  }
}

}  // namespace
}  // namespace saccade
