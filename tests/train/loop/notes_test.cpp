// What training says about fields that do nothing, about the annotations that it evaluates with, and about the weights it starts from.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/run_command.h"
#include "tests/train/program.h"

namespace saccade {
namespace {

class NotesOfTraining : public Cli {
 protected:
  static size_t lines_with(const std::string& text, const std::string& part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
};

TEST_F(NotesOfTraining, AFieldThatDoesNothingIsNamedOnce) {
  const Result r =
      run("train --config tiny.textproto --output idle --set train.ema_tau=5 --set train.max_steps=1");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(lines_with(r.out, "note: train.ema_tau: 5 does nothing without train.ema_decay"), 1U) << r.out;
  EXPECT_EQ(lines_with(r.out, "does nothing"), 1U) << r.out;
}

// Two evaluations; annotation 0 is pycocotools' own trap.
TEST_F(NotesOfTraining, TheEvaluatorsNotesAreToldOnce) {
  ASSERT_EQ(
      run_script(
          "mkdir -p zero && sed -E 's/\"id\": ?1, ?\"image_id\"/\"id\": 0, \"image_id\"/' "
          "shapes/annotations.json > zero/annotations.json && grep -cE '\"id\": ?0' zero/annotations.json")
          .status,
      0);
  const Result r = run(
      "train --config tiny.textproto --output zero_run --set data.val.annotations=zero/annotations.json --set "
      "train.max_steps=4");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(lines_with(r.out, "evaluation after step"), 2U) << r.out;
  EXPECT_EQ(lines_with(r.out, "annotation 0: a match with it counts as a false positive"), 1U) << r.out;
  EXPECT_EQ(lines_with(r.out, "boxes look like"), 0U) << r.out;
}

// last holds both, best the averages alone.
TEST_F(NotesOfTraining, TheWeightsThatAreTakenAreNamed) {
  expect_works("train --config tiny.textproto --output averaged --quiet --set train.ema_decay=0.9");
  for (const auto& [file, said] : {std::pair{"last", 1U}, std::pair{"best", 0U}}) {
    const Result r = run(fmt::format(
        "train --config tiny.textproto --output from_{0} --init-from averaged/checkpoints/{0}.safetensors --set "
        "train.max_steps=1",
        file));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(lines_with(r.out, "the weights as the optimizer left them are taken, not their averages"), said)
        << r.out;
  }
}

}  // namespace
}  // namespace saccade
