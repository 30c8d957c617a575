// A test that fails and one that crashes; scripts/gpu_test.sh --plant runs them to check that it reports them
// and continues. They are disabled elsewhere.
#include <gtest/gtest.h>

#include <cstdlib>

namespace {

TEST(Planted, DISABLED_Failure) { ADD_FAILURE() << "a planted failure"; }

TEST(Planted, DISABLED_Crash) { std::abort(); }

TEST(Planted, DISABLED_PassesAfterTheCrash) {}

}  // namespace
