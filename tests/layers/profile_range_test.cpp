// Tests what a profiler is told: which module and which op run, and that each range ends.
#include "core/runtime/profile_range.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "autograd/engine.h"
#include "autograd/ops.h"
#include "layers/linear.h"

namespace saccade {
namespace {

std::vector<std::string> told;
int depth = 0;
constexpr ProfileHooks kRecorder{
    [](const char* name) { told.push_back(std::to_string(depth++) + " " + name); }, [] { --depth; }};

TEST(ProfileRange, NamesModulesAndOpsWhileSomebodyWatches) {
  const Linear linear(3, 2);
  const Var x(Tensor::full({4, 3}, 1));
  profile_hooks = &kRecorder;
  const Var loss = sum(call(linear, x));
  backward(loss);
  profile_hooks = nullptr;
  EXPECT_EQ(depth, 0);
  const std::vector<std::string> expected{"0 Linear", "1 linear", "0 sum", "0 sum backward",
                                          "0 linear backward"};
  EXPECT_EQ(told, expected);
  call(linear, x);
  EXPECT_EQ(told.size(), expected.size());
}

}  // namespace
}  // namespace saccade
