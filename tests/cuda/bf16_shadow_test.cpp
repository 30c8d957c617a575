// Tests the bf16 copies of parameters: their values, when they are made, and how many launches that takes.
#include "core/kernels/bf16_shadow/bf16_shadow.h"

#include <gtest/gtest.h>

#include "core/kernels/bf16_shadow/round_to_bf16.h"
#include "core/tensor/execution.h"
#include "tests/cuda_emulator/emulator.h"

namespace saccade {
namespace {

Tensor parameter(int64_t n, float first) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + 0.001f * static_cast<float>(i);
  return Tensor::from(Shape{n}, values).to(Device::kCuda);
}
void expect_rounded(const Tensor& copy, const Tensor& t) {
  EXPECT_EQ(copy.dtype(), DType::kBF16);
  EXPECT_EQ(copy.to_vector<float>(), t.to(DType::kBF16).to_vector<float>());
}

TEST(Rounded, CopiesAreMadeTogetherAndOnlyAfterChanges) {
  // The tensors are a piece and a rest, a stretch and a rest, and several pieces.
  Tensor a = parameter(kernels::kBf16Chunk + 3, 0.5f), b = parameter(13, -2), c = parameter(5000, 1);
  for (const Tensor& t : {a, b, c}) keep_bf16_shadow(t);
  auto launches_of = [](auto&& f) {
    uint64_t before = emulator::launches();
    f();
    return emulator::launches() - before;
  };
  Tensor first;
  EXPECT_EQ(launches_of([&] { first = in_bf16(b); }), 1U);
  expect_rounded(first, b);
  EXPECT_EQ(launches_of([&] { EXPECT_EQ(in_bf16(b).raw(), first.raw()); }), 0U);
  EXPECT_EQ(launches_of([&] { in_bf16(a), in_bf16(c); }), 0U);
  expect_rounded(in_bf16(a), a);
  expect_rounded(in_bf16(c), c);
  uint32_t version = first.storage()->version();
  for (Tensor t : {a, b}) t.fill(0.7);
  EXPECT_EQ(launches_of([&] { in_bf16(c); }), 0U);  // has not changed
  EXPECT_EQ(launches_of([&] { in_bf16(a), in_bf16(b); }), 1U);
  expect_rounded(in_bf16(a), a);
  expect_rounded(in_bf16(b), b);
  EXPECT_NE(first.storage()->version(), version);  // autograd refuses what it has saved
  Tensor part = in_bf16(a.slice(0, 4, 9));
  EXPECT_EQ(part.numel(), 5);
  EXPECT_EQ(part.storage(), in_bf16(a).storage());
}

// Several parameters are in one storage, as the optimizer keeps them.
TEST(Rounded, PartsOfOneStorage) {
  Tensor all = parameter(200, 0), a = all.slice(0, 0, 64).reshape({8, 8}), b = all.slice(0, 64, 200);
  for (const Tensor& t : {a, b}) keep_bf16_shadow(t);
  expect_rounded(in_bf16(a.transpose(0, 1)), a.transpose(0, 1));
  a.fill(0.9);
  expect_rounded(in_bf16(b), b);
  expect_rounded(in_bf16(a), a);
}

// The tuned kernel and its reference round values at places that packs can move and at others.
TEST(Rounded, ByEitherKernel) {
  Tensor all = parameter(3000, 0), a = all.slice(0, 0, 1500), b = all.slice(0, 1501, 3000);
  for (const Tensor& t : {a, b}) keep_bf16_shadow(t);
  for (bool generic : {true, false}) {
    a.fill(generic ? 0.9 : 0.7);
    execution().generic_kernels = generic;
    expect_rounded(in_bf16(b), b);
    expect_rounded(in_bf16(a), a);
    execution().generic_kernels = false;
  }
}

TEST(Rounded, OthersAreCast) {
  Tensor loose = parameter(9, 1), host = Tensor::full({4}, 0.3);
  keep_bf16_shadow(host);
  expect_rounded(in_bf16(loose), loose);
  expect_rounded(in_bf16(host), host);
  EXPECT_FALSE(host.storage()->bf16_shadow);
}

}  // namespace
}  // namespace saccade
