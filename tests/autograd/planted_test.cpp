// A failure and a crash, which scripts/gpu_test.sh --plant runs to see that it tells them and continues.
// Disabled elsewhere.
#include <gtest/gtest.h>

#include <cstdlib>

namespace {

TEST(Planted, DISABLED_Failure) { ADD_FAILURE() << "a planted failure"; }

TEST(Planted, DISABLED_Crash) { std::abort(); }

TEST(Planted, DISABLED_PassesAfterTheCrash) {}

}  // namespace
