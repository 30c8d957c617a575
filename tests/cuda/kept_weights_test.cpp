// Tests that a convolution lays out its weight once while the weight keeps its forms: by the number of
// launches, with equal bits, also in recordings.
#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "core/kernels/bf16_shadow/bf16_shadow.h"
#include "core/runtime/recording.h"
#include "core/tensor/prepared.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/normal_tensor.h"

namespace saccade {
namespace {

class KeptWeights : public testing::TestWithParam<DType> {
 protected:
  KeptWeights() {
    execution().compute = GetParam();
    keep_bf16_shadow(w_);
    in_bf16(w_);
    conv();  // makes the plan
    each_ = launches_of([&] { want_ = bits(conv()); });
  }
  Tensor conv() const { return conv2d(Var(x_), Var(w_), Var(), {.padding = 1}).value(); }
  static std::vector<float> bits(const Tensor& t) { return t.to(DType::kF32).to_vector<float>(); }
  template <class F>
  static uint64_t launches_of(F&& f) {
    const uint64_t before = emulator::launches();
    f();
    return emulator::launches() - before;
  }
  // Expects this many launches less than without kept forms.
  void expect_saved(uint64_t saved) {
    std::vector<float> found;
    EXPECT_EQ(launches_of([&] { found = bits(conv()); }) + saved, each_);
    EXPECT_EQ(found, want_);
  }
  static int64_t active_memory() { return allocator(Device::kCuda).stats().active_bytes; }

  ExecutionScope scope_;
  NoGrad no_grad_;
  Tensor x_ = normal_tensor({1, 5, 6, 16}, 1).to(Device::kCuda).to(GetParam());
  Tensor w_ = normal_tensor({8, 16, 3, 3}, 2).to(Device::kCuda);
  uint64_t each_ = 0;
  std::vector<float> want_;
};

TEST_P(KeptWeights, AreLaidOutAgainOnlyAfterChanges) {
  const int64_t before = active_memory();
  expect_saved(0);
  keep_forms(w_);
  for (uint64_t saved : {0U, 1U, 1U}) expect_saved(saved);
  w_.copy_from(normal_tensor(w_.shape(), 3).to(Device::kCuda));
  in_bf16(w_);
  const std::vector<float> old = want_;
  want_ = bits(conv());
  EXPECT_NE(want_, old);
  expect_saved(1);
  drop_forms(w_);
  for (uint64_t saved : {0U, 0U}) expect_saved(saved);
  EXPECT_EQ(active_memory(), before);
}

// What a recording reads outlives its owner, and what it makes is not kept: it has no values yet.
TEST_P(KeptWeights, ServeRecordings) {
  for (uint64_t saved : {1U, 0U}) {
    keep_forms(w_);
    if (saved > 0) expect_saved(0);
    Tensor y;
    const auto work = record_work(Device::kCuda, [&] { y = conv(); });
    expect_saved(saved);
    drop_forms(w_);
    expect_saved(0);
    std::vector<float> found;
    EXPECT_EQ(launches_of([&] {
                work->start();
                found = bits(y);
              }) + saved,
              each_);
    EXPECT_EQ(found, want_);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, KeptWeights, testing::Values(DType::kF32, DType::kBF16));

}  // namespace
}  // namespace saccade
