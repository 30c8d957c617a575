#include <gtest/gtest.h>

namespace {

// Says after each test which mutants it came through.
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
