// The GPU's allocator: what its statistics and its message say.
#include "core/tensor/allocator.h"

#include <gtest/gtest.h>

#include "core/tensor/error.h"
#include "core/tensor/execution.h"
#include "core/tensor/tensor.h"

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

}  // namespace
}  // namespace saccade
