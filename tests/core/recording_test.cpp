// Tests recorded GPU work: its memory, and what cannot be recorded.
#include "core/runtime/recording.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/runtime/gpu.h"
#include "core/tensor/allocator.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

using Floats = std::vector<float>;

Tensor on_gpu(const Floats& values) {
  return Tensor::from<float>({std::ssize(values)}, values, Device::kCuda);
}
Floats values_of(const Tensor& t) { return t.to(Device::kCpu).to_vector<float>(); }

class Recording : public testing::Test {
 protected:
  void SetUp() override {
    EXPECT_EQ(record_work(Device::kCpu, [] { FAIL(); }), nullptr);
    if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  }
};

// Memory freed during the recording is reused; what remains keeps its place, even when the recording is gone.
TEST_F(Recording, RunsWhenItIsStarted) {
  Tensor x = on_gpu({1, 2, 3}), y, z;
  const int64_t before = allocator(Device::kCuda).stats().active_bytes;
  auto work = record_work(Device::kCuda, [&] {
    const void* place = nullptr;
    for (int i = 0; i < 3; ++i) {
      Tensor twice = Tensor::empty(x.shape(), x.dtype(), x.device());
      if (i > 0) {
        EXPECT_EQ(twice.raw(), place);
      }
      place = twice.raw();
      twice.copy_from(x);
      y = {};
      y = Tensor::empty(x.shape(), x.dtype(), x.device());
      y.copy_from(twice);
    }
    z = Tensor::zeros({2}, DType::kF32, Device::kCuda);
  });
  ASSERT_TRUE(work);
  for (const Floats& values : {Floats{1, 2, 3}, Floats{4, 5, 6}}) {
    x.copy_from(on_gpu(values));
    const int64_t waits = cuda_statistics().host_syncs;
    work->start();
    EXPECT_EQ(cuda_statistics().host_syncs, waits);
    EXPECT_EQ(values_of(y), values);
    EXPECT_EQ(values_of(z), Floats(2, 0));
  }
  work.reset();
  EXPECT_EQ(values_of(y), (Floats{4, 5, 6}));
  y = z = {};
  EXPECT_EQ(allocator(Device::kCuda).stats().active_bytes, before);
}

// If the host takes part, nothing is recorded, and the GPU continues as before.
TEST_F(Recording, RefusesWhatTheHostTakesPartIn) {
  const Tensor x = on_gpu({1, 2, 3});
  struct {
    const char* words;
    std::function<void()> work;
  } const cases[] = {
      {"a copy from the host", [] { on_gpu({1}); }},
      {"a copy from the host", [] { on_gpu(Floats(100'000, 1)); }},
      {"a copy to the host", [&] { values_of(x); }},
      {"a recording", [] { record_work(Device::kCuda, [] {}); }},
      {"of its own", [] { fail("of its own"); }},
  };
  for (const auto& [words, work] : cases) {
    try {
      record_work(Device::kCuda, work);
      ADD_FAILURE() << words << " is recorded";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
    EXPECT_EQ(kept_for_recording(), nullptr);
    EXPECT_EQ(values_of(x), (Floats{1, 2, 3}));
  }
}

// Another thread's work would be recorded, too, so it is refused; memory that it frees is given back later.
TEST_F(Recording, TakesNothingOfOtherThreads) {
  const Tensor x = on_gpu({1, 2, 3});
  Tensor y, dropped = on_gpu({4});
  auto work = record_work(Device::kCuda, [&] {
    std::thread([&] {
      dropped = {};
      EXPECT_THROW(Tensor::zeros({2}, DType::kF32, Device::kCuda), Error);
    }).join();
    y = Tensor::empty(x.shape(), x.dtype(), x.device());
    y.copy_from(x);
  });
  work->start();
  EXPECT_EQ(values_of(y), (Floats{1, 2, 3}));
  std::thread([&] { EXPECT_EQ(values_of(y), (Floats{1, 2, 3})); }).join();
}

}  // namespace
}  // namespace saccade
