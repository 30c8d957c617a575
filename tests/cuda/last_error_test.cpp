// Tests what a failing call leaves behind on the emulated GPU, and which device the streams belong to.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "core/kernels/matmul/matmul.h"
#include "core/runtime/cuda/launch.h"
#include "core/runtime/gpu.h"
#include "core/runtime/recording.h"
#include "core/tensor/tensor.h"
#include "tests/cuda/buffer.h"
#include "tests/cuda_emulator/library_faults.h"

namespace saccade {
namespace {

__global__ void do_nothing() {}

class LastError : public testing::Test {
 protected:
  void TearDown() override {
    emulator::library_faults() = {};
    EXPECT_EQ(emulator::take_fault(), "");
  }
  static std::vector<float> sum_of(const Tensor& x) {
    Tensor y = Tensor::empty({1, 4, 4}, DType::kF32, Device::kCuda);
    kernels::matmul(x, x, y);
    return y.to_vector<float>();
  }
};

// The next launch or library call finds the error of a call that nobody checked.
TEST_F(LastError, IsFoundByKernelsAndLibraries) {
  const Tensor x = Tensor::full({1, 4, 4}, 1, DType::kF32, Device::kCuda);
  const std::vector<float> sums = sum_of(x);
  for (bool by_library : {false, true}) {
    emulator::library_faults().failing_calls = {"cudaMalloc"};
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, 4), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    if (by_library)
      EXPECT_THROW(sum_of(x), Error);
    else
      EXPECT_THROW(cuda::launch("do_nothing", &do_nothing, {1, 32}), Error);
    expect_report(emulator::take_fault(), "finds the error 2 that an earlier call has left");
    EXPECT_EQ(sum_of(x), sums);
  }
}

TEST_F(LastError, IsClearedWhereItIsThrown) {
  emulator::library_faults().failing_calls = {"cudaMalloc"};
  void* p = nullptr;
  EXPECT_THROW(cuda::check(cudaMalloc(&p, 4), "cudaMalloc"), Error);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  cuda::launch("do_nothing", &do_nothing, {1, 32});
}

// A recording that fails at its end is handled by its caller; what comes after it works.
TEST_F(LastError, OfARecordingDoesNotOutliveIt) {
  const Tensor x = Tensor::full({1, 4, 4}, 1, DType::kF32, Device::kCuda);
  const std::vector<float> sums = sum_of(x);
  Tensor y = Tensor::empty({1, 4, 4}, DType::kF32, Device::kCuda);
  for (const char* call : {"cudaMalloc", "cudaStreamEndCapture", "cudaGraphInstantiate"}) {
    SCOPED_TRACE(call);
    const auto work = [&] { y.copy_from(Tensor::full({1, 4, 4}, 2, DType::kF32, Device::kCuda)); };
    emulator::library_faults().failing_calls = {call};
    EXPECT_THROW(record_work(Device::kCuda, work), Error);
    emulator::library_faults() = {};
    EXPECT_EQ(sum_of(x), sums);
    record_work(Device::kCuda, work)->start();
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(16, 2));
  }
}

TEST_F(LastError, FindsAThreadThatIssuesWhatAnotherOneCaptures) {
  Buffer x(4);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  std::thread([&] { EXPECT_NE(cudaMemsetAsync(x.data, 0, 4, stream), cudaSuccess); }).join();
  expect_report(emulator::take_fault(), "a thread issues work to a stream that another thread captures");
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

// While the caller's device is another one, our stream can be used only within a CurrentGpu.
TEST_F(LastError, TheCallersDeviceComesBack) {
  ::setenv("SACCADE_EMULATOR_GPUS", "2", 1);
  EXPECT_EQ(gpu_count(), 2);
  Buffer x(4);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_NE(cudaMemsetAsync(x.data, 0, 4, cuda::stream()), cudaSuccess);
  expect_report(emulator::take_fault(), "invalid resource handle");
  int now = -1;
  {
    const CurrentGpu ours(Device::kCuda);
    EXPECT_EQ(cudaGetDevice(&now), cudaSuccess);
    EXPECT_EQ(now, 0);
    EXPECT_EQ(cudaMemsetAsync(x.data, 0, 4, cuda::stream()), cudaSuccess);
  }
  EXPECT_EQ(cudaGetDevice(&now), cudaSuccess);
  EXPECT_EQ(now, 1);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  ::unsetenv("SACCADE_EMULATOR_GPUS");
}

}  // namespace
}  // namespace saccade
