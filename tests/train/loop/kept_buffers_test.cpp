// Tests that running statistics are restored to those before a step, whether they change or not.
#include "train/loop/kept_buffers.h"

#include <gtest/gtest.h>

#include "layers/norm.h"

namespace saccade {
namespace {

constexpr int64_t kKeptChannels = 5;

struct TwoNorms : Module {
  BatchNorm2d& trained = *make_child<BatchNorm2d>("trained", kKeptChannels, false);
  BatchNorm2d& frozen = *make_child<BatchNorm2d>("frozen", kKeptChannels, true);
  std::string type_name() const override { return "TwoNorms"; }
  std::vector<std::vector<float>> buffers() const {
    std::vector<std::vector<float>> all;
    for (const NamedTensor& t : named_tensors())
      if (t.is_buffer) all.push_back(t.var.value().to_vector<float>());
    return all;
  }
};

TEST(KeptBuffers, ComeBack) {
  for (Device device : {Device::kCpu, Device::kCuda}) {
    if (device == Device::kCuda && !cuda_problem().empty()) continue;
    TwoNorms model;
    model.initialize(1);
    model.to(device);
    model.set_training(true);
    KeptBuffers kept(model);
    const auto step = [&](double value) {
      const Tensor x = Tensor::full({1, 2, 3, kKeptChannels}, value, DType::kF32, device);
      model.trained.forward(model.frozen.forward(Var(x)));
    };
    // Before the first step; before the second, which finds what changes; and before later ones, whose
    // buffers are in one block.
    for (int i = 0; i < 4; ++i) {
      const auto before = model.buffers();
      kept.keep();
      EXPECT_EQ(model.buffers(), before);
      step(i + 2);
      const auto after = model.buffers();
      EXPECT_NE(after, before);
      kept.restore();
      EXPECT_EQ(model.buffers(), before) << i;
      step(i + 2);
      EXPECT_EQ(model.buffers(), after) << i;
    }
    // The memory is somebody else's, as after weights were loaded.
    for (const NamedTensor& t : model.named_tensors())
      if (Var var = t.var; t.is_buffer) var.value() = var.value().clone();
    const auto before = model.buffers();
    kept.keep();
    step(9);
    kept.restore();
    EXPECT_EQ(model.buffers(), before);
  }
}

}  // namespace
}  // namespace saccade
