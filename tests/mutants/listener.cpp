#include <gtest/gtest.h>

namespace {

// After each test, adds a line to the trace (mutants.h): its name, its milliseconds, and the numbers of the
// changes whose places it has reached.
class MutantListener : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Skipped()) return;
    mutants::state.write("test " + std::string(test.test_suite_name()) + "." + test.name() + " " +
                         std::to_string(test.result()->elapsed_time()));
  }
};

[[maybe_unused]] const bool kListens =
    (testing::UnitTest::GetInstance()->listeners().Append(new MutantListener), true);

}  // namespace
