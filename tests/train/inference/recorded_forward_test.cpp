// Tests when a forward pass is recorded, and when it is not.
#include "train/inference/recorded_forward.h"

#include <gtest/gtest.h>

#include <utility>

#include "autograd/ops.h"
#include "core/tensor/device.h"

namespace saccade {
namespace {

class CudaRecordedForward : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  }
  // Returns twice the numbers.
  std::vector<float> run(const std::vector<float>& numbers, int64_t key = 0) {
    const Tensor x = Tensor::from<float>({std::ssize(numbers)}, numbers, Device::kCuda);
    const Var y = forward_.run(CacheKey().add(key), x, [&](const Tensor& images) {
      ++calls_;
      if (reads_) images.to(Device::kCpu);
      if (std::exchange(full_, false)) throw OutOfMemory("[test] full");
      return add(Var(images), Var(images));
    });
    return y.value().to(Device::kCpu).to_vector<float>();
  }
  NoGrad no_grad_;
  RecordedForward<Var> forward_;
  int calls_ = 0;
  bool reads_ = false, full_ = false;
};

// The first two calls with a key are plain calls; after the second it is recorded.
TEST_F(CudaRecordedForward, RecordsWhatComesBack) {
  for (float i = 1; i < 6; ++i) EXPECT_EQ(run({i, 2}), (std::vector<float>{2 * i, 4}));
  EXPECT_EQ(calls_, 3);
  EXPECT_EQ(run({1, 2, 3}), (std::vector<float>{2, 4, 6}));  // another size
  EXPECT_EQ(calls_, 4);
  EXPECT_EQ(run({5, 2}), (std::vector<float>{10, 4}));
  EXPECT_EQ(calls_, 4);
}

TEST_F(CudaRecordedForward, KeepsFour) {
  for (int round = 0; round < 4; ++round)
    for (int64_t key = 0; key < 4; ++key) run({1}, key);
  EXPECT_EQ(calls_, 12);
  for (int round = 0; round < 3; ++round) run({1}, 9);
  EXPECT_EQ(calls_, 15);
  run({1}, 3);
  EXPECT_EQ(calls_, 15);
  EXPECT_EQ(run({2}, 0), (std::vector<float>{4}));  // the oldest was dropped
  EXPECT_EQ(calls_, 16);
}

// The recordings' memory goes to a call that needs it.
TEST_F(CudaRecordedForward, GivesRecordingsUpWhenTheGpuIsFull) {
  for (int i = 0; i < 3; ++i) run({1});
  EXPECT_EQ(calls_, 3);
  full_ = true;
  EXPECT_EQ(run({1, 2}), (std::vector<float>{2, 4}));
  EXPECT_EQ(calls_, 5);
  for (int i = 0; i < 3; ++i) run({1});  // not again
  EXPECT_EQ(calls_, 8);
  full_ = true;
  EXPECT_THROW(run({1, 2, 3}), OutOfMemory);
}

TEST_F(CudaRecordedForward, CallsWhatCannotBeRecorded) {
  reads_ = true;
  for (float i = 1; i < 6; ++i) EXPECT_EQ(run({i}), (std::vector<float>{2 * i}));
  EXPECT_EQ(calls_, 6);  // once more for trying
  execution().grad_enabled = true;
  reads_ = false;
  for (int i = 0; i < 4; ++i) run({1, 1});
  EXPECT_EQ(calls_, 10);
}

}  // namespace
}  // namespace saccade
