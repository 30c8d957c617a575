// Tests deformable attention and grid sampling against PyTorch (tests/golden/ms_deform_attn), tuned against
// generic kernels and the GPU against the CPU, with any number of threads and with positions that are not
// numbers.
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops.h"
#include "core/tensor/device.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"
#include "tests/autograd/golden.h"

namespace saccade {
namespace {

std::vector<Device> devices() {
  return cuda_problem().empty() ? std::vector<Device>{Device::kCpu, Device::kCuda}
                                : std::vector{Device::kCpu};
}

class GoldenHeads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(MsDeformAttn, GoldenHeads, testing::Values(30, 32, 64, 71));

// f32 positions on maps of 6 cells are exact to 1e-6 cells; gradients of positions multiply that by the map
// size.
TEST_P(GoldenHeads, EqualsGridSampleOfPyTorch) {
  Golden golden("ms_deform_attn/head_" + std::to_string(GetParam()) + ".safetensors");
  FeatureLevels levels{{6, 4}, {3, 5}, {1, 2}};
  for (Device device : devices()) {
    for (std::string kind : {"points", "boxes"}) {
      Vars in;
      for (const std::string& name :
           {std::string("value"), kind, std::string("offsets"), std::string("logits")})
        in.emplace_back(golden[name].to(device), true);
      Var y = ms_deform_attn(in[0], in[1], in[2], in[3], levels);
      EXPECT_LT(error_of(y.value(), golden[kind + ".y"]), 5e-6) << kind;
      backward(y, golden["dy"].to(device));
      const char* names[] = {"value", "reference", "offsets", "logits"};
      for (size_t i = 0; i < 4; ++i)
        EXPECT_LT(error_of(in[i].grad(), golden[kind + ".d" + names[i]]), 2e-5)
            << name_of(device) << " " << kind << " " << names[i];
    }
  }
}

TEST(GridSample, EqualsPyTorch) {
  Golden golden("ms_deform_attn/grid_sample.safetensors");
  for (Device device : devices()) {
    for (bool align : {false, true}) {
      std::string kind = align ? "corners" : "edges";
      Var x(golden["x"].to(device), true), grid(golden["grid"].to(device), true);
      Var y = grid_sample(x, grid, align);
      EXPECT_LT(error_of(y.value(), golden[kind + ".y"]), 5e-6);
      backward(y, golden["dy"].to(device));
      EXPECT_LT(error_of(x.grad(), golden[kind + ".dx"]), 5e-6);
      EXPECT_LT(error_of(grid.grad(), golden[kind + ".dgrid"]), 2e-5);
    }
  }
}

struct Problem {
  FeatureLevels levels{{9, 7}, {4, 5}, {2, 1}};
  Tensor value, reference, offsets, logits, dy;
};

Problem make_problem(int64_t N, int64_t Q, int64_t M, int64_t D, int64_t P, int64_t R,
                     bool fourth_level = false) {
  Problem p;
  if (fourth_level) p.levels.push_back({1, 2});
  int64_t L = p.levels.size();
  Rng rng(mix_key(static_cast<uint64_t>(D), static_cast<uint64_t>(Q)));
  auto normal = [&](const Shape& shape, double scale) {
    Tensor t = Tensor::empty(shape);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(scale * rng.normal());
    return t;
  };
  p.value = normal({N, p.levels.tokens(), M, D}, 1);
  p.reference = Tensor::empty({N, Q, L, R});
  for (int64_t i = 0; i < p.reference.numel(); ++i)
    p.reference.data<float>()[i] = static_cast<float>(rng.uniform(0.1, 0.9));
  p.offsets = normal({N, Q, M, L, P, 2}, 2);
  p.logits = normal({N, Q, M, L * P}, 2);
  p.dy = normal({N, Q, M * D}, 1);
  return p;
}

// y, dvalue, dreference, doffsets, dlogits
Tensors run(const Problem& p, bool generic) {
  Tensors out{p.dy.empty_like(), p.value.empty_like(), p.reference.empty_like(), p.offsets.empty_like(),
              p.logits.empty_like()};
  for (Tensor& t : out) t.fill(NAN);
  const auto& f = kernels::ms_deform_attn_forward;
  const auto& b = kernels::ms_deform_attn_backward;
  if (generic) {
    f.generic(p.value, p.reference, p.offsets, p.logits, p.levels, out[0]);
    b.generic(p.value, p.reference, p.offsets, p.logits, p.levels, p.dy, out[1], out[2], out[3], out[4]);
  } else {
    f(p.value, p.reference, p.offsets, p.logits, p.levels, out[0]);
    b(p.value, p.reference, p.offsets, p.logits, p.levels, p.dy, out[1], out[2], out[3], out[4]);
  }
  return out;
}

// Returns the results of `run` on the GPU, copied to the CPU.
Tensors run_on_gpu(Problem p, bool generic = false) {
  for (Tensor* t : {&p.value, &p.reference, &p.offsets, &p.logits, &p.dy}) *t = t->to(Device::kCuda);
  Tensors out = run(p, generic);
  for (Tensor& t : out) t = t.to(Device::kCpu);
  return out;
}

class MsDeformAttnOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
    execution().deterministic = true;
  }
  void TearDown() override { execution().deterministic = true; }
};

// The cases have packs of 16 bytes and single channels, rows that take part of a warp and several passes of
// it, and queries that are the cells of the maps (85, with a fourth level 87) or not. With 1000 queries a
// tile has more points than one block adds. 4 points on 3 or 4 levels and 32 channels have kernels of their
// own.
TEST_F(MsDeformAttnOnGpu, EqualsTheCpu) {
  struct Case {
    int64_t N, Q, M, D, P, R;
    bool fourth_level = false;
  };
  for (Case c : {Case{2, 1, 3, 30, 5, 2},
                 {2, 85, 2, 32, 4, 2},
                 {2, 87, 2, 32, 4, 4, true},
                 {1, 9, 3, 32, 4, 2, true},
                 {2, 7, 3, 32, 1, 4},
                 {1, 3, 2, 48, 8, 2},
                 {2, 5, 1, 64, 3, 4},
                 {3, 3, 1, 71, 4, 2},
                 {1, 2, 1, 160, 4, 4},
                 {1, 2, 2, 16, 4, 2},
                 {2, 85, 1, 8, 2, 2},
                 {1, 1000, 1, 4, 4, 2}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      Problem p = make_problem(c.N, c.Q, c.M, c.D, c.P, c.R, c.fourth_level);
      p.value = p.value.to(dtype);
      p.dy = p.dy.to(dtype);
      Tensors want = run(p, true);
      for (bool deterministic : {true, false}) {
        execution().deterministic = deterministic;
        Tensors got = run_on_gpu(p);
        // In bf16 both round nearly the same sums.
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_LT(error_of(got[i], want[i]), dtype == DType::kBF16 && i < 2 ? 4e-2 : 1e-4)
              << "D " << c.D << " Q " << c.Q << " " << name_of(dtype) << " output " << i;
      }
    }
  }
}

// A head's points fill part of a vector, one vector (at most 16 floats), or several.
TEST(MsDeformAttnOnCpu, EqualsTheGenericKernel) {
  struct Case {
    int64_t D, P, R;
    bool fourth_level;
  };
  for (Case c :
       {Case{32, 2, 2, false}, {32, 4, 4, true}, {30, 8, 2, true}, {16, 8, 4, true}, {8, 11, 2, false}}) {
    Problem p = make_problem(2, 5, 2, c.D, c.P, c.R, c.fourth_level);
    const Tensors want = run(p, true), got = run(p, false);
    for (size_t i = 0; i < got.size(); ++i)  // the same terms are summed in another order, as on the GPU
      EXPECT_LT(error_of(got[i], want[i]), 1e-4) << "D " << c.D << " P " << c.P << " output " << i;
  }
}

TEST_F(MsDeformAttnOnGpu, GradientsOnDemand) {
  Problem p = make_problem(1, 9, 2, 32, 4, 4);
  for (Tensor* t : {&p.value, &p.reference, &p.offsets, &p.logits, &p.dy}) *t = t->to(Device::kCuda);
  Tensors all = run(p, false);
  for (size_t wanted = 1; wanted < 5; ++wanted) {
    Tensors out(5);
    out[wanted] = all[wanted].empty_like();
    kernels::ms_deform_attn_backward(p.value, p.reference, p.offsets, p.logits, p.levels, p.dy, out[1],
                                     out[2], out[3], out[4]);
    EXPECT_EQ(all[wanted].to(Device::kCpu).to_vector<float>(),
              out[wanted].to(Device::kCpu).to_vector<float>())
        << wanted;
  }
}

// A non-finite value in a gradient reaches the same elements as on the CPU, no others, and stays non-finite.
TEST_F(MsDeformAttnOnGpu, NotFiniteComesOut) {
  for (float bad : {NAN, INFINITY}) {
    Problem p = make_problem(2, 5, 2, 32, 4, 2);
    p.dy.data<float>()[70] = bad;  // in one query, head 0
    p.logits.data<float>()[12 * 15 + 3] = NAN;
    Tensors want = run(p, true);
    for (bool deterministic : {true, false}) {
      execution().deterministic = deterministic;
      Tensors got = run_on_gpu(p);
      for (size_t i = 0; i < got.size(); ++i) {
        auto a = got[i].to_vector<float>(), b = want[i].to_vector<float>();
        int finite = 0, not_finite = 0;
        for (size_t j = 0; j < a.size(); ++j) {
          EXPECT_EQ(std::isfinite(a[j]), std::isfinite(b[j])) << "output " << i << " element " << j;
          ++(std::isfinite(b[j]) ? finite : not_finite);
        }
        EXPECT_GT(finite, 0) << i;
        EXPECT_GT(not_finite, 0) << i;
      }
    }
  }
}

TEST_F(MsDeformAttnOnGpu, WildPositions) {
  for (float wild : {1e30f, -1e30f, INFINITY, -INFINITY, NAN, 3e9f, -3e9f}) {
    Problem p = make_problem(1, 6, 2, 32, 4, 2);
    p.offsets.fill(static_cast<double>(wild));
    for (bool deterministic : {true, false}) {
      execution().deterministic = deterministic;
      Tensors out = run_on_gpu(p);
      for (size_t i : {0, 1, 3})
        for (double v : out[i].to_vector<double>()) EXPECT_EQ(v, 0.0) << wild << " output " << i;
    }
  }
}

// A few queries read the maps in place, many copy them. 5 points per level are 15 per query (one vector with
// a gap), 7 are 21.
TEST(MsDeformAttn, TunedEqualsGeneric) {
  for (int64_t D : {7, 16, 30, 32, 48, 64, 71, 1025}) {
    for (int64_t R : {2, 4}) {
      for (auto [Q, P] : {std::pair<int64_t, int64_t>{1, 5}, {40, 4}, {23, 7}}) {
        Problem p = make_problem(2, Q, 3, D, P, R);
        Tensors tuned = run(p, false), generic = run(p, true);
        for (size_t i = 0; i < tuned.size(); ++i)
          EXPECT_LT(error_of(tuned[i], generic[i]), 1e-4)
              << "D " << D << " R " << R << " Q " << Q << " output " << i;
      }
    }
  }
}

// Both round the same f32 sums to bf16, so they may differ by one rounding (2^-8 of the element, at most a
// few rms).
TEST(MsDeformAttn, TunedEqualsGenericInBf16) {
  for (int64_t D : {7, 32, 64, 71}) {
    for (int64_t Q : {1, 40}) {
      Problem p = make_problem(2, Q, 3, D, 4, 2);
      p.value = p.value.to(DType::kBF16);
      p.dy = p.dy.to(DType::kBF16);
      Tensors tuned = run(p, false), generic = run(p, true);
      for (size_t i = 0; i < tuned.size(); ++i)
        EXPECT_LT(error_of(tuned[i], generic[i]), i < 2 ? 4e-2 : 1e-4)
            << "D " << D << " Q " << Q << " output " << i;
    }
  }
}

TEST(MsDeformAttn, SameBitsOnAnyNumberOfThreads) {
  int before = omp_get_max_threads();
  for (int64_t Q : {2, 300}) {
    Problem p = make_problem(2, Q, 4, 32, 4, 4);
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

// Positions that are far outside or not finite sample zero and get a zero or non-finite gradient, but never
// touch memory outside the maps.
TEST(MsDeformAttn, WildPositions) {
  float wild[] = {1e30f, -1e30f, INFINITY, -INFINITY, NAN, 3e9f, -3e9f};
  for (float w : wild) {
    Problem p = make_problem(1, 6, 2, 32, 4, 2);
    p.offsets.fill(static_cast<double>(w));
    for (bool generic : {false, true}) {
      Tensors out = run(p, generic);
      for (double y : out[0].to_vector<double>()) EXPECT_EQ(y, 0.0) << w;
      for (double d : out[1].to_vector<double>()) EXPECT_EQ(d, 0.0) << w;
      for (double d : out[3].to_vector<double>()) EXPECT_EQ(d, 0.0) << w;
    }
  }
}

// A NaN in the summed values must reach the output, where the trainer looks for it.
TEST(MsDeformAttn, NanComesOut) {
  for (bool generic : {false, true}) {
    Problem p = make_problem(1, 6, 2, 32, 4, 2);
    p.logits.data<float>()[3] = NAN;
    EXPECT_TRUE(std::isnan(run(p, generic)[0].to_vector<float>()[0]));
    p = make_problem(1, 6, 2, 32, 4, 2);
    p.value.fill(NAN);
    EXPECT_TRUE(std::isnan(run(p, generic)[0].to_vector<float>()[0]));
  }
}

TEST(MsDeformAttn, LocationsForDrawing) {
  for (int64_t R : {2, 4}) {
    Problem p = make_problem(2, 3, 2, 4, 4, R);
    int64_t L = p.levels.size(), P = 4, M = 2;
    Tensor locations = p.offsets.empty_like(), weights = Tensor::empty({2, 3, M, L, P});
    kernels::ms_deform_locations(p.reference, p.offsets, p.logits, p.levels, locations, weights);
    for (int64_t row = 0; row < 2 * 3 * M; ++row) {
      double sum = 0;
      for (int64_t l = 0; l < L; ++l) {
        const float* ref = p.reference.data<float>() + (row / M * L + l) * R;
        for (int64_t k = 0; k < P; ++k) {
          int64_t j = (row * L + l) * P + k;
          sum += static_cast<double>(weights.data<float>()[j]);
          float size = static_cast<float>(p.levels[l].width);
          float step = R == 2 ? 1 / size : ref[2] * 0.5f / static_cast<float>(P);
          EXPECT_NEAR(locations.data<float>()[2 * j], ref[0] + p.offsets.data<float>()[2 * j] * step, 1e-6);
        }
      }
      EXPECT_NEAR(sum, 1, 1e-6);
    }
  }
}

TEST(MsDeformAttn, TooManyLevels) {
  FeatureLevels levels;
  for (int l = 0; l < FeatureLevels::kMax; ++l) levels.push_back({1, 1});
  EXPECT_THROW(levels.push_back({1, 1}), Error);
  EXPECT_THROW((FeatureLevels{{1, 0}}), Error);
}

// Gradients that are not wanted are skipped, and one that is computed alone keeps its bits.
TEST(MsDeformAttn, GradientsOnDemand) {
  Problem p = make_problem(1, 40, 2, 32, 4, 4);
  Tensors all = run(p, false);
  for (size_t wanted = 1; wanted < 5; ++wanted) {
    Tensors out(5);
    out[wanted] = all[wanted].empty_like();
    kernels::ms_deform_attn_backward(p.value, p.reference, p.offsets, p.logits, p.levels, p.dy, out[1],
                                     out[2], out[3], out[4]);
    EXPECT_TRUE(same_bits(all[wanted], out[wanted])) << wanted;
  }
}

}  // namespace
}  // namespace saccade
