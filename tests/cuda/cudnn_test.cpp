// How convolutions choose among cuDNN's engines, tried on the emulator's stand-in: it offers one engine whose
// results do not repeat, one on tensor cores and one exact, which needs a workspace. Built in emulated builds
// only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/kernels/bf16_shadow/bf16_shadow.h"
#include "core/kernels/conv2d/conv2d_cuda_plan.h"
#include "core/runtime/gpu.h"

namespace saccade {
namespace {

using cuda::ConvPass;
using cuda::ConvProblem;

ConvProblem problem(ConvPass pass, DType dtype, MathMode math, int64_t N = 1) {
  return {.pass = pass,
          .dtype = dtype,
          .math = math,
          .N = N,
          .H = 5,
          .W = 6,
          .C = 4,
          .O = 6,
          .R = 3,
          .S = 3,
          .OH = 5,
          .OW = 6,
          .p = {.padding = 1}};
}

struct Restore {
  MathMode mode = execution().math;
  ~Restore() {
    execution().math = mode;
    cuda::set_conv_plan_capacity(cuda::kConvPlanCapacity);
  }
};

TEST(Cudnn, EnginesAreExactUnlessTf32IsAskedFor) {
  for (ConvPass pass : {ConvPass::kForward, ConvPass::kData, ConvPass::kWeight}) {
    auto exact = cuda::conv_plan(problem(pass, DType::kF32, MathMode::kExact));
    auto tf32 = cuda::conv_plan(problem(pass, DType::kF32, MathMode::kTf32));
    auto low = cuda::conv_plan(problem(pass, DType::kBF16, MathMode::kExact));
    ASSERT_TRUE(*exact && *tf32 && *low);
    EXPECT_GT((*exact)->workspace_bytes(), 0);
    EXPECT_EQ((*tf32)->workspace_bytes(), 0);
    EXPECT_EQ((*low)->workspace_bytes(), 0);
  }
}

TEST(Cudnn, Tf32RoundsTheFactorsOnly) {
  Restore restore;
  Tensor x = Tensor::full({1, 3, 3, 4}, 1 + 1.0 / 4096, DType::kF32, Device::kCuda);
  Tensor w = Tensor::full({8, 4, 3, 3}, 1, DType::kF32, Device::kCuda);
  Tensor y = Tensor::empty({1, 1, 1, 8}, DType::kF32, Device::kCuda);
  kernels::conv2d_forward(x, w, {}, {}, Activation::kNone, y);
  EXPECT_FLOAT_EQ(y.to_vector<float>()[0], 36 * (1 + 1.0f / 4096));
  execution().math = MathMode::kTf32;
  kernels::conv2d_forward(x, w, {}, {}, Activation::kNone, y);
  EXPECT_EQ(y.to_vector<float>()[0], 36);
}

// [1, 3, 3, 4] by [2, 4, 3, 3], all ones: sums of 36.
struct Ones {
  Tensor x = Tensor::full({1, 3, 3, 4}, 1, DType::kBF16, Device::kCuda);
  Tensor w = Tensor::full({2, 4, 3, 3}, 1, DType::kBF16, Device::kCuda);
  Tensor bias = Tensor::from<float>({2}, std::vector<float>{4, -40}, Device::kCuda);
  Tensor residual =
      Tensor::from<float>({1, 1, 1, 2}, std::vector<float>{-2, 3}, Device::kCuda).to(DType::kBF16);
  Tensor y = Tensor::empty({1, 1, 1, 2}, DType::kBF16, Device::kCuda);

  // Counts the launches of `work` with the weight in cuDNN's order and a bias that already has a shadow, so
  // that nothing is copied or cast.
  template <class Work>
  int64_t launches(const Work& work) {
    w = kernels::conv_weight_in_order(w);
    keep_bf16_shadow(bias);
    in_bf16(bias);
    const int64_t before = cuda_statistics().launches;
    work();
    return cuda_statistics().launches - before;
  }
};

TEST(Cudnn, BiasResidualAndReluOfBf16AreOneGraph) {
  Ones o;
  EXPECT_EQ(o.launches([&] { kernels::conv2d_forward(o.x, o.w, o.bias, {}, Activation::kRelu, o.y); }), 1);
  EXPECT_EQ(o.y.to_vector<float>(), (std::vector<float>{40, 0}));
  EXPECT_EQ(o.launches([&] { kernels::conv2d_forward(o.x, o.w, o.bias, {}, Activation::kNone, o.y); }), 1);
  EXPECT_EQ(o.y.to_vector<float>(), (std::vector<float>{40, -4}));
  EXPECT_EQ(o.launches([&] { kernels::conv2d_add_relu(o.x, o.w, o.bias, o.residual, {}, o.y); }), 1);
  EXPECT_EQ(o.y.to_vector<float>(), (std::vector<float>{38, 0}));
}

// The library has no engine for a ReLU or residual without a bias: our own epilogue follows the convolution.
TEST(Cudnn, WhatFollowsWithoutABiasComesAfterwards) {
  Ones o;
  EXPECT_EQ(o.launches([&] { kernels::conv2d_forward(o.x, o.w, {}, {}, Activation::kRelu, o.y); }), 2);
  EXPECT_EQ(o.y.to_vector<float>(), (std::vector<float>{36, 36}));
  EXPECT_EQ(o.launches([&] { kernels::conv2d_add_relu(o.x, o.w, {}, o.residual, {}, o.y); }), 2);
  EXPECT_EQ(o.y.to_vector<float>(), (std::vector<float>{34, 39}));
  auto ran = emulator::launched_kernels();
  for (const char* name : {"cudnnBackendExecute", "conv_bias_relu"})
    EXPECT_EQ(std::count(ran.begin(), ran.end(), name), 1) << name;
  for (int parts = 1; parts < 8; ++parts) {
    auto q = problem(ConvPass::kForward, DType::kBF16, MathMode::kExact);
    q.residual = parts & 1, q.bias = parts & 2, q.relu = parts & 4;
    EXPECT_EQ(cuda::conv_plan(q)->has_value(), q.bias) << parts;
  }
}

// In the 1x1 convolution that ends a bottleneck, cuBLASLt adds the residual that is already there.
TEST(Cudnn, AProductAddsTheResidual) {
  Ones o;
  o.w = Tensor::full({2, 4, 1, 1}, 1, DType::kBF16, Device::kCuda);
  o.residual = Tensor::full({1, 3, 3, 2}, 0.5, DType::kBF16, Device::kCuda);
  o.y = Tensor::empty({1, 3, 3, 2}, DType::kBF16, Device::kCuda);
  EXPECT_EQ(o.launches([&] { kernels::conv2d_add_relu(o.x, o.w, o.bias, o.residual, {}, o.y); }), 1);
  EXPECT_EQ(o.y.slice(1, 0, 1).slice(2, 0, 1).to_vector<float>(), (std::vector<float>{8.5, 0}));
}

TEST(Cudnn, ThePlanCacheStaysBounded) {
  Restore restore;
  cuda::set_conv_plan_capacity(3);
  for (int64_t n = 1; n <= 10; ++n)
    ASSERT_TRUE(*cuda::conv_plan(problem(ConvPass::kForward, DType::kF32, MathMode::kExact, n)));
  CacheStats before = cuda::conv_plans();
  EXPECT_EQ(before.size, 3u);
  cuda::conv_plan(problem(ConvPass::kForward, DType::kF32, MathMode::kExact, 10));
  EXPECT_EQ(cuda::conv_plans().hits, before.hits + 1);
}

// The heuristic is asked once for similar sizes, and again if the engine that it named refuses one. The
// choice does not depend on earlier requests.
TEST(Cudnn, EnginesAreFoundOnceForManySizes) {
  auto of_size = [](int64_t height, int64_t width) {
    auto q = problem(ConvPass::kForward, DType::kBF16, MathMode::kExact);
    q.H = q.OH = height;
    q.W = q.OW = width;
    return q;
  };
  cuda::ConvPlanner planner;
  for (int64_t width = 32; width < 64; ++width) ASSERT_TRUE(planner.make(of_size(32, width)));
  EXPECT_EQ(planner.heuristics(), 1);
  ASSERT_TRUE(planner.make(of_size(32, 64)));
  EXPECT_EQ(planner.heuristics(), 2);
  ASSERT_TRUE(
      planner.make(of_size(512, 2)));  // the engine for 1,024 to 2,047 pixels has tiles that are too wide
  EXPECT_EQ(planner.heuristics(), 3);
  EXPECT_EQ(of_size(32, 33).typical().key().text(), of_size(33, 32).typical().key().text());
}

TEST(CudnnDeathTest, AMissingLibraryIsOneLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has not opened the library yet
  EXPECT_EXIT(
      {
        setenv("SACCADE_EMULATOR_HIDES_LIBRARIES", "1", 1);
        try {
          cuda::cudnn();
        } catch (const Error& e) {
          std::fprintf(stderr, "%s\n", e.what());
          std::exit(3);
        }
      },
      testing::ExitedWithCode(3), "^cuDNN is missing: no libcudnn.so.9.hidden in [^\n]*\n$");
}

TEST(Cudnn, TheStandInRefusesWhatTheLibraryRefuses) {
  auto expect_error = [](const char* part, auto call) {
    try {
      call();
      ADD_FAILURE() << "nothing thrown: " << part;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  expect_error("[cuda] cudnnBackendFinalize: CUDNN_STATUS_BAD_PARAM, attribute 901 is missing",
               [] { cuda::CudnnDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR).finalize(); });
  expect_error("the count of attribute 902", [] {
    cuda::CudnnDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR).set(CUDNN_ATTR_TENSOR_DIMENSIONS, {1, 2});
  });
  expect_error("the type of attribute 901", [] {
    cuda::CudnnDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR).set(CUDNN_ATTR_TENSOR_DATA_TYPE, {0});
  });
  expect_error("no attribute 700 in this descriptor", [] {
    cuda::CudnnDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
  });
  expect_error("the sizes of x, w and y do not fit", [] {
    auto wrong = problem(ConvPass::kForward, DType::kF32, MathMode::kExact);
    wrong.OH = 4;
    cuda::ConvPlanner().make(wrong);
  });
}

}  // namespace
}  // namespace saccade
