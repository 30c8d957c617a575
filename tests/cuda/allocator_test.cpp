// Tests the statistics and the message of the GPU's allocator.
#include "core/tensor/allocator.h"

#include <gtest/gtest.h>

#include "core/runtime/gpu.h"
#include "core/tensor/error.h"
#include "core/tensor/execution.h"
#include "core/tensor/tensor.h"
#include "tests/cuda/buffer.h"

namespace saccade {
namespace {

TEST(CudaAllocator, OutOfMemorySaysWhatHeldTheMemory) {
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  constexpr int64_t kMebibyte = 1 << 20;
  Tensor parameters, activations;
  {
    MemoryUseScope use(MemoryUse::kParameters);
    parameters = Tensor::empty({3 * kMebibyte}, DType::kU8, Device::kCuda);
  }
  MemoryUseScope use(MemoryUse::kForward);
  activations = Tensor::empty({2 * kMebibyte}, DType::kU8, Device::kCuda);
  parameters = Tensor();  // counted where it was asked for
  try {
    Tensor::empty({kMebibyte, kMebibyte}, DType::kU8, Device::kCuda);
    FAIL() << "a TiB was there";
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find("asked for 1048576.0 MiB (forward pass); "), std::string::npos) << message;
    EXPECT_NE(message.find("(parameters 0.0, optimizer 0.0, forward pass 2.0, backward pass 0.0, other "),
              std::string::npos)
        << message;
  }
}

// A freed block serves a request of nearly the same size without a call of the driver, except large blocks.
TEST(CudaAllocator, FreedBlocksServeTheNextRequest) {
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  const auto calls = [] { return allocator(Device::kCuda).stats().system_requests; };
  const auto ask = [](int64_t bytes) { return Tensor::empty({bytes}, DType::kU8, Device::kCuda); };
  for (const auto& [first, second] : {std::pair(300, 512), {5000, 4700}, {1 << 20, (1 << 20) - 1000}}) {
    const void* place = ask(first).raw();
    const int64_t before = calls();
    EXPECT_EQ(ask(second).raw(), place);
    EXPECT_EQ(calls(), before);
  }
  ask(20 << 20);
  const int64_t before = calls();
  ask(20 << 20);
  EXPECT_EQ(calls(), before + 1);
  ask(300);
  allocator(Device::kCuda).trim();
  ask(300);
  EXPECT_EQ(calls(), before + 2);
}

// A block that waits for its next owner belongs to nobody, and for that owner nothing of it is written yet.
TEST(CudaAllocator, BlocksOfTheCacheAreWatched) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "needs the emulated GPU";
  Tensor host = Tensor::zeros({100}), x = Tensor::zeros({100}, DType::kF32, Device::kCuda);
  void* place = x.raw();
  x = {};
  const auto copy = [&](size_t bytes) {
    return cudaMemcpyAsync(host.raw(), place, bytes, cudaMemcpyDeviceToHost, cuda::stream());
  };
  EXPECT_NE(copy(4), cudaSuccess);
  expect_report(emulator::take_fault(), "outside an allocation");
  x = Tensor::empty({99}, DType::kF32, Device::kCuda);
  ASSERT_EQ(x.raw(), place);
  x.fill(0);
  EXPECT_EQ(copy(99 * sizeof(float)), cudaSuccess);
  EXPECT_NE(copy(100 * sizeof(float)), cudaSuccess);
  expect_report(emulator::take_fault(), "outside an allocation");
}

}  // namespace
}  // namespace saccade
