// Tests the order between streams on the emulated GPU: each test plants what a GPU would do wrong only now
// and then, and reads the report.
#include <gtest/gtest.h>

#include <set>

#include "core/kernels/copy/copy.h"
#include "core/runtime/cuda/launch.h"
#include "core/runtime/cuda/pinned.h"
#include "core/runtime/host_copy.h"
#include "tests/cuda/buffer.h"

namespace saccade {
namespace {

// A stream, an event and pinned memory of n floats.
struct Beside {
  explicit Beside(int n) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    void* p = nullptr;
    EXPECT_EQ(cudaHostAlloc(&p, static_cast<size_t>(n) * sizeof(float), 0), cudaSuccess);
    pinned = static_cast<float*>(p);
    for (int i = 0; i < n; ++i) pinned[i] = 1;
    bytes = static_cast<size_t>(n) * sizeof(float);
  }
  ~Beside() {
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  }
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  float* pinned = nullptr;
  size_t bytes = 0;
};

TEST(Emulator, CopiesArriveWhenTheHostHasWaited) {
  Buffer x(4);
  Beside beside(4);
  ASSERT_EQ(cudaMemcpyAsync(beside.pinned, x.data, beside.bytes, cudaMemcpyDeviceToHost, beside.stream),
            cudaSuccess);
  ASSERT_EQ(cudaEventRecord(beside.event, beside.stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(beside.event), cudaErrorNotReady);
  EXPECT_NE(beside.pinned[0], 0);
  ASSERT_EQ(cudaEventSynchronize(beside.event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(beside.event), cudaSuccess);
  EXPECT_EQ(beside.pinned[0], 0);
  EXPECT_EQ(emulator::take_fault(), "");
}

TEST(Emulator, FindsPinnedMemoryThatChangesUnderACopy) {
  Buffer x(4);
  Beside beside(4);
  ASSERT_EQ(cudaMemcpyAsync(x.data, beside.pinned, beside.bytes, cudaMemcpyHostToDevice, beside.stream),
            cudaSuccess);
  beside.pinned[3] = 2;
  EXPECT_NE(cudaStreamSynchronize(beside.stream), cudaSuccess);
  expect_report(emulator::take_fault(), "pinned memory was changed");
}

// If a stream waits for another one, a host that waits for the first has waited for both.
TEST(Emulator, WaitingForAStreamIsWaitingForThoseBeforeIt) {
  for (bool early : {true, false}) {
    Buffer x(4);
    Beside first(4), second(4);
    ASSERT_EQ(cudaMemcpyAsync(x.data, first.pinned, first.bytes, cudaMemcpyHostToDevice, first.stream),
              cudaSuccess);
    ASSERT_EQ(cudaEventRecord(first.event, first.stream), cudaSuccess);
    auto record = [&] { ASSERT_EQ(cudaEventRecord(second.event, second.stream), cudaSuccess); };
    if (early) record();
    ASSERT_EQ(cudaStreamWaitEvent(second.stream, first.event, 0), cudaSuccess);
    if (!early) record();
    ASSERT_EQ(cudaEventSynchronize(second.event), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(first.event), early ? cudaErrorNotReady : cudaSuccess);
  }
  EXPECT_EQ(emulator::take_fault(), "");
}

TEST(Emulator, FindsStreamsThatDoNotWaitForEachOther) {
  for (bool waits : {false, true}) {
    Buffer x(4), y(4);
    Beside beside(4);
    ASSERT_EQ(cudaMemcpyAsync(x.data, beside.pinned, beside.bytes, cudaMemcpyHostToDevice, beside.stream),
              cudaSuccess);
    ASSERT_EQ(cudaEventRecord(beside.event, beside.stream), cudaSuccess);
    if (waits) {
      ASSERT_EQ(cudaStreamWaitEvent(cuda::stream(), beside.event, 0), cudaSuccess);
    }
    cudaError_t status =
        cudaMemcpyAsync(y.data, x.data, beside.bytes, cudaMemcpyDeviceToDevice, cuda::stream());
    EXPECT_EQ(status == cudaSuccess, waits);
    std::string report = emulator::take_fault();
    EXPECT_EQ(report.find("neither waits for the other") != std::string::npos, !waits) << report;
  }
}

__global__ void double_them(float* x, int n) {
  if (static_cast<int>(threadIdx.x) < n) x[threadIdx.x] *= 2;
}
void run_kernel(const Buffer& x) {
  try {
    cuda::launch("double_them", &double_them, {1, 32}, x.get(), x.count);
  } catch (const Error&) {
  }
}
void wait(cudaStream_t stream, const Beside& other, cudaStream_t recorded) {
  ASSERT_EQ(cudaEventRecord(other.event, recorded), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream, other.event, 0), cudaSuccess);
}

TEST(Streams, FindsKernelsThatDoNotWaitForACopy) {
  for (cudaMemcpyKind kind : {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost}) {
    for (bool waits : {false, true}) {
      Buffer x(4);
      Beside beside(4);
      void *to = x.data, *from = beside.pinned;
      if (kind == cudaMemcpyDeviceToHost) std::swap(to, from);
      ASSERT_EQ(cudaMemcpyAsync(to, from, beside.bytes, kind, beside.stream), cudaSuccess);
      if (waits) wait(cuda::stream(), beside, beside.stream);
      run_kernel(x);
      const std::string report = emulator::take_fault();
      EXPECT_EQ(report.find("does not wait for a copy of another stream") != std::string::npos, !waits)
          << report;
    }
  }
}

TEST(Streams, FindsCopiesThatDoNotWaitForAKernel) {
  for (bool waits : {false, true}) {
    Buffer x(4);
    Beside beside(4);
    run_kernel(x);
    if (waits) wait(beside.stream, beside, cuda::stream());
    cudaError_t status =
        cudaMemcpyAsync(beside.pinned, x.data, beside.bytes, cudaMemcpyDeviceToHost, beside.stream);
    EXPECT_EQ(status == cudaSuccess, waits);
    const std::string report = emulator::take_fault();
    EXPECT_EQ(report.find("a copy does not wait for the kernel") != std::string::npos, !waits) << report;
  }
}

// Memory is allocated and freed in the order of the stream that it was requested for.
TEST(Streams, FindsMemoryThatIsUsedBeforeItIsThere) {
  for (bool waits : {false, true}) {
    Beside beside(4);
    void* p = nullptr;
    ASSERT_EQ(cudaMallocAsync(&p, beside.bytes, cuda::stream()), cudaSuccess);
    if (waits) wait(beside.stream, beside, cuda::stream());
    (void)cudaMemcpyAsync(p, beside.pinned, beside.bytes, cudaMemcpyHostToDevice, beside.stream);
    const std::string report = emulator::take_fault();
    EXPECT_EQ(report.find("allocation of another stream") != std::string::npos, !waits) << report;
    EXPECT_EQ(cudaFreeAsync(p, nullptr), cudaSuccess);
  }
}
TEST(Streams, FindsMemoryThatIsFreedUnderACopy) {
  for (bool waits : {false, true}) {
    Beside beside(4);
    void* p = nullptr;
    ASSERT_EQ(cudaMallocAsync(&p, beside.bytes, cuda::stream()), cudaSuccess);
    wait(beside.stream, beside, cuda::stream());
    ASSERT_EQ(cudaMemcpyAsync(p, beside.pinned, beside.bytes, cudaMemcpyHostToDevice, beside.stream),
              cudaSuccess);
    if (waits) wait(cuda::stream(), beside, beside.stream);
    (void)cudaFreeAsync(p, cuda::stream());
    const std::string report = emulator::take_fault();
    EXPECT_EQ(report.find("does not wait for a copy of another stream") != std::string::npos, !waits)
        << report;
  }
}

struct RandomEvents {
  explicit RandomEvents(uint64_t seed) { emulator::set_event_seed(seed); }
  ~RandomEvents() { emulator::set_event_seed(0); }
};

// Asking once and continuing whatever the answer is right only now and then; waiting is always right.
TEST(Streams, EventsHappenAtRandomMoments) {
  for (bool waits : {false, true}) {
    std::set<bool> right;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      RandomEvents events(seed);
      Buffer x(4);
      Beside beside(4);
      ASSERT_EQ(cudaMemcpyAsync(beside.pinned, x.data, beside.bytes, cudaMemcpyDeviceToHost, beside.stream),
                cudaSuccess);
      ASSERT_EQ(cudaEventRecord(beside.event, beside.stream), cudaSuccess);
      if (waits)
        cuda::wait_for(beside.event);
      else
        (void)cuda::happened(beside.event);
      right.insert(beside.pinned[0] == 0);
    }
    EXPECT_EQ(right, waits ? std::set<bool>{true} : (std::set<bool>{false, true}));
  }
  EXPECT_EQ(emulator::take_fault(), "");
}

// With every seed, pinned blocks and memory of uploads are reused in another order.
TEST(Streams, CopiesArriveWhateverTheMomentsAre) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    RandomEvents events(seed);
    std::vector<std::pair<HostCopy, float>> copies;
    for (int i = 0; i < 60; ++i) {
      const auto value = static_cast<float>(i + 1);
      Tensor x = Tensor::full({i % 3 == 0 ? 1000 : 80000}, value);
      Tensor y = Tensor::empty(x.shape(), DType::kF32, Device::kCuda);
      if (i % 2 == 0)
        kernels::start_upload(x, &y);
      else
        y = x.to(Device::kCuda);
      x.fill(-1);
      copies.emplace_back(HostCopy(y), value);
      if (i % 7 == 6) copies.erase(copies.begin(), copies.begin() + 3);
    }
    for (const auto& [copy, value] : copies) {
      EXPECT_EQ(copy.data<float>()[0], value) << "seed " << seed;
      EXPECT_EQ(copy.data<float>()[copy.numel() - 1], value) << "seed " << seed;
    }
  }
  EXPECT_EQ(emulator::take_fault(), "");
}

}  // namespace
}  // namespace saccade
