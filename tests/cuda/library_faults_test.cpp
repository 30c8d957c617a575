// Tests what happens when NVIDIA's libraries refuse: engines that cannot be planned, workspaces over the
// bound, heuristics that find nothing. The next engine is taken, or our own kernel gives the same numbers.
#include "tests/cuda_emulator/library_faults.h"

#include <gtest/gtest.h>

#include "core/kernels/conv2d/conv2d_cuda_plan.h"
#include "core/kernels/matmul/matmul.h"
#include "tests/cuda/buffer.h"
#include "tests/cuda_emulator/cublasLt.h"

namespace saccade {
namespace {

using cuda::ConvPass;
using cuda::ConvPlan;
using cuda::ConvProblem;
using emulator::library_faults;

class LibraryFaultsTest : public testing::Test {
 protected:
  void TearDown() override { library_faults() = {}; }
};

ConvProblem convolution(MathMode math) {
  return {.pass = ConvPass::kForward,
          .dtype = DType::kF32,
          .math = math,
          .N = 1,
          .H = 5,
          .W = 6,
          .C = 4,
          .O = 8,
          .R = 3,
          .S = 3,
          .OH = 5,
          .OW = 6,
          .p = {.padding = 1}};
}

TEST_F(LibraryFaultsTest, AnEngineThatCannotBePlannedIsPassedOver) {
  EXPECT_EQ(cuda::ConvPlanner().make(convolution(MathMode::kTf32))->workspace_bytes(), 0);
  library_faults().unfit_engines = {1};
  EXPECT_EQ(cuda::ConvPlanner().make(convolution(MathMode::kTf32))->workspace_bytes(),
            1000);  // the fall-back
  library_faults().unfit_engines = {1, 2};
  EXPECT_FALSE(cuda::ConvPlanner().make(convolution(MathMode::kTf32)));
}

TEST_F(LibraryFaultsTest, AWorkspaceOverTheBoundIsNotTaken) {
  library_faults().workspaces[1] = int64_t{1} << 40;
  EXPECT_EQ(cuda::ConvPlanner().make(convolution(MathMode::kTf32))->workspace_bytes(), 1000);
  library_faults().workspaces[2] = int64_t{1} << 40;
  EXPECT_FALSE(cuda::ConvPlanner().make(convolution(MathMode::kTf32)));
}

// No other test has this problem, since engines and plans are kept.
TEST_F(LibraryFaultsTest, WithoutAnEngineOurKernelsGiveTheNumbers) {
  library_faults().no_engines = true;
  Tensor x = Tensor::full({1, 5, 7, 4}, 1, DType::kF32, Device::kCuda),
         w = Tensor::full({8, 4, 3, 3}, 0.5, DType::kF32, Device::kCuda),
         y = Tensor::empty({1, 1, 3, 8}, DType::kF32, Device::kCuda);
  kernels::conv2d_forward(x, w, {}, {.dilation = 2}, Activation::kNone, y);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(24, 18));
}

TEST_F(LibraryFaultsTest, WithoutAProductOurKernelsGiveTheNumbers) {
  library_faults().no_products = true;
  Tensor a = Tensor::full({1, 5, 24}, 1, DType::kF32, Device::kCuda),
         b = Tensor::full({1, 24, 8}, 0.5, DType::kF32, Device::kCuda),
         y = Tensor::empty({1, 5, 8}, DType::kF32, Device::kCuda);
  const uint64_t runs = emulator::products_run();
  kernels::matmul(a, b, y);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(40, 12));
  EXPECT_EQ(emulator::products_run(), runs);
}

// The planted fault is an engine that writes more than it asked for.
TEST_F(LibraryFaultsTest, FindsAWorkspaceThatIsTooSmall) {
  std::optional<ConvPlan> plan = cuda::ConvPlanner().make(convolution(MathMode::kExact));
  library_faults().workspaces[2] = 100000;
  Tensor x = Tensor::full({1, 5, 6, 4}, 1, DType::kF32, Device::kCuda),
         w = Tensor::full({8, 3, 3, 4}, 1, DType::kF32, Device::kCuda),
         y = Tensor::full({1, 5, 6, 8}, 0).to(Device::kCuda);
  EXPECT_THROW(plan->run({x.raw(), w.raw(), y.raw()}), Error);
  expect_report(emulator::take_fault(), "outside an allocation");
}

}  // namespace
}  // namespace saccade
