// Tests what training says about fields that do nothing, about the annotations that it evaluates with, and
// about the weights it starts from.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

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

// Settings that come after the end of the run, and how many images there are.
TEST_F(NotesOfTraining, WhatIsSaidOfLengthsAndCountsIsTrue) {
  const std::string train = "train --config tiny.textproto --set train.max_steps=1 ";
  const Result late = run(train +
                          "--output late --set schedule.warmup_steps=50 --set schedule.type=step --set "
                          "schedule.drop_epochs=7 --set data.augment.mosaic=1 --set "
                          "data.augment.strong_start_epoch=9");
  EXPECT_EQ(late.status, 0) << late.err;
  for (
      const char* part :
      {"warning: the warm-up of 50 steps (schedule.warmup_steps) is longer than the run of 1 step; the learning rate never reaches ",
       "note: schedule.drop_epochs: the run ends after epoch 0.5, so the learning rate never drops",
       "note: data.augment.strong_start_epoch: 9, but the run ends after epoch 0.5, without strong augmentation"})
    EXPECT_EQ(lines_with(late.out, part), 1U) << part << late.out;
  const Result early = run(train + "--output early --set schedule.warmup_steps=1");
  EXPECT_EQ(early.status, 0) << early.err;
  EXPECT_EQ(lines_with(early.out, "warm-up"), 0U) << early.out;
  // --overfit evaluates on the training images, whatever there is besides.
  const Result few = run(train + "--output few --data shapes --overfit 100");
  EXPECT_EQ(few.status, 0) << few.err;
  EXPECT_EQ(lines_with(few.out, "on the same 4 images (100 were asked for), without augmentation"), 1U)
      << few.out;
  EXPECT_EQ(lines_with(few.out, "validation"), 0U) << few.out;
  const Result drawn = run(train + "--output drawn --data shapes --set data.val_fraction=0.1");
  EXPECT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_EQ(lines_with(drawn.out, ": 3 images for training and 1 for validation"), 1U) << drawn.out;
}

TEST_F(NotesOfTraining, AFlagWithoutEffectIsNamed) {
  const std::string train = "train --config tiny.textproto --set train.max_steps=1 --output ";
  const std::string predict = "predict --no-pictures --checkpoint " + kCheckpoint + " --output flags ";
  for (const auto& [with, without, note] : {
           std::tuple{train + "flag_long --max-steps 2", train + "flag_short --max-steps 1",
                      "note: --max-steps 2: changes nothing, the run ends after step 1\n"},
           {predict + "--recursive " + image_, predict + "--recursive shapes/images",
            "note: --recursive: changes nothing, none of the inputs is a folder\n"},
           {predict + "--tile 64 " + image_, predict + "--tile 63 " + image_,
            "note: --tile 64: changes nothing, no image is larger\n"},
           {"data convert shapes flag_all --seed 3", "data convert shapes flag_few --seed 3 --most 2",
            "note: --seed: changes nothing without --split or --most\n"},
           {"data show --config tiny.textproto --output flag_shown --lr 0.1",
            "data show --config tiny.textproto --output flag_shown",
            "note: --lr: changes nothing, the pictures do not depend on it\n"},
       }) {
    const Result told = run(with), silent = run(without);
    EXPECT_EQ(told.status, 0) << with << told.err;
    EXPECT_EQ(silent.status, 0) << without << silent.err;
    EXPECT_EQ(lines_with(told.out, note), 1U) << with << told.out;
    EXPECT_EQ(lines_with(silent.out, "changes nothing"), 0U) << without << silent.out;
  }
}

TEST_F(NotesOfTraining, HalfOfALaunchersVariablesAreNamed) {
  const Result r = run_script(
      "WORLD_SIZE=2 $S train --config tiny.textproto --set train.max_steps=1 --output half && WORLD_SIZE=2 $S "
      "train --quiet --config tiny.textproto --set train.max_steps=1 --output half_quiet");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(lines_with(r.out,
                       "warning: WORLD_SIZE is set, but RANK (torchrun) is not: this process trains alone\n"),
            1U)
      << r.out;
}

TEST_F(NotesOfTraining, AnEditThatPredictDoesNotReadIsNamed) {
  const Result r =
      run("predict --checkpoint " + kCheckpoint +
          " --output unread --set data.workers=0 --set eval.evaluator=coco --set data.val_height=48 --set "
          "data.val_width=64 " +
          image_);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(lines_with(r.out, "changes nothing"), 2U) << r.out;
  EXPECT_EQ(lines_with(r.out, "note: --set data.workers=0: changes nothing, no data set is read"), 1U)
      << r.out;
}

// There are two evaluations; an annotation id of 0 is a trap of pycocotools.
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

// eval and report say about their set what training says about its validation set: that it is the training
// set, that classes share a name, and what the model lacks.
TEST_F(NotesOfTraining, EvaluationSaysWhatIsOddAboutItsSet) {
  ASSERT_EQ(
      run_script(
          "mkdir -p odd && sed -E 's/\\]\\}$/,{\"id\":70,\"name\":\"washer\"},{\"id\":71,\"name\":\"Washer\"}]}/' "
          "shapes/annotations.json > odd/a.json && sed -E '0,/\"category_id\": ?[0-9]+/s//\"category_id\":70/' "
          "odd/a.json > odd/annotations.json && grep -c 'category_id\":70' odd/annotations.json")
          .status,
      0);
  const std::string set = " --annotations odd/annotations.json --images shapes/images";
  const Result odd = run("eval --checkpoint " + kCheckpoint + set);
  EXPECT_EQ(odd.status, 0) << odd.err;
  for (
      const char* part :
      {"4 of 4 images are also in the training set, for example 000001.png; a model has learned such images, so metrics on them are too high",
       "1 class has objects here, but the model lacks it (metrics of 0): \"washer\" 1",
       "the categories \"washer\" and \"Washer\" differ only in case"})
    EXPECT_EQ(lines_with(odd.out, part), 1U) << part << "\n" << odd.out;
  const Result reported = run("report run --output odd/r.html" + set);
  EXPECT_EQ(reported.status, 0) << reported.err;
  EXPECT_EQ(lines_with(reported.out, "4 of 4 images are also in the training set"), 1U) << reported.out;
  // For a folder, its own training images count if the model's are gone.
  ASSERT_EQ(
      run_script(
          "mkdir -p odd/set/train odd/elsewhere && cp -r shapes/images shapes/annotations.json odd/set/train "
          "&& ln -s train odd/set/val && ln -s train odd/set/test && cp -r run odd/elsewhere")
          .status,
      0);
  for (const auto& [split, said] : {std::pair{"val", 1U}, std::pair{"test", 1U}, std::pair{"train", 0U}}) {
    const Result r = run_script(fmt::format(
        "cd odd/elsewhere && \"$S\" eval --checkpoint {} --data ../set --split {}", kCheckpoint, split));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(lines_with(r.out, "4 of 4 images are also in the training set"), said) << split << r.out;
  }
}

// last holds both the weights and the averages, best only the averages.
TEST_F(NotesOfTraining, TheWeightsThatAreTakenAreNamed) {
  expect_works("train --config tiny.textproto --output averaged --quiet --set train.ema_decay=0.9");
  for (const auto& [file, said] : {std::pair{"last", 1U}, std::pair{"best", 0U}}) {
    const Result r = run(fmt::format(
        "train --config tiny.textproto --output from_{0} --init-from averaged/checkpoints/{0}.safetensors --set "
        "train.max_steps=1",
        file));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(lines_with(r.out, "these are the weights of the optimizer, not their averages"), said) << r.out;
  }
}

}  // namespace
}  // namespace saccade
