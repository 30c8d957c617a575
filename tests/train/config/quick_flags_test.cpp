// Tests --epochs, --batch, --image-size and --lr as edits of a configuration, and other programs' words.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <tuple>

#include "tests/input_error.h"
#include "train/config/habits.h"
#include "train/config/quick_flags.h"
#include "train/config/recipes.h"
#include "train/config/task.h"

namespace saccade {
namespace {

Config edited(const std::string& recipe, const QuickFlags& flags) {
  Config config = parse_config(find_recipe(recipe, "").text, recipe);
  for (const FlagEdit& edit : flag_edits(config, flags)) apply_set(config, edit.assignment);
  validate_config(config);
  return resolve_config(config);
}

std::vector<int32_t> listed(const google::protobuf::RepeatedField<int32_t>& list) {
  return {list.begin(), list.end()};
}

TEST(ImageSizeFlag, SetsAllThatDependsOnIt) {
  Config c = edited("rt_detr_r18", {.image_size = 320});
  EXPECT_EQ(c.data().augment().height(), 320);
  EXPECT_EQ(c.data().augment().width(), 320);
  EXPECT_EQ(c.data().val_height(), 320);
  EXPECT_EQ(c.data().val_width(), 320);
  std::vector<int32_t> heights = listed(c.data().augment().multi_scale_heights());
  ASSERT_FALSE(heights.empty());
  EXPECT_EQ(std::ranges::min(heights), 256) << "240 is not a multiple of 32";
  EXPECT_EQ(std::ranges::max(heights), 416) << "nor is 400";
  for (const int32_t height : heights) EXPECT_EQ(height % 32, 0);
  // Among short sides, the one that is given is the evaluation's.
  c = edited("deformable_detr_r50", {.image_size = 400});
  EXPECT_EQ(listed(c.data().augment().short_sides()),
            (std::vector<int32_t>{240, 256, 272, 288, 304, 320, 336, 352, 368, 384, 400}));
  EXPECT_EQ(c.data().augment().long_side(), 667);
  EXPECT_EQ(listed(c.data().augment().crop_short_sides()), (std::vector<int32_t>{200, 250, 300}));
  EXPECT_EQ(c.data().augment().crop_min(), 192);
  EXPECT_EQ(c.data().augment().crop_max(), 300);
  EXPECT_EQ(c.data().val_short_side(), 400);
  EXPECT_EQ(c.data().val_long_side(), 667);
  c = edited("mask_rcnn_r50", {.image_size = 400});
  EXPECT_EQ(listed(c.data().augment().short_sides()), std::vector<int32_t>{400});
  EXPECT_EQ(c.data().val_short_side(), 400);
  // A fixed size keeps its form, and a backbone that is built for it follows.
  c = edited("bccd", {.image_size = 192});
  EXPECT_EQ(c.data().augment().height(), 144);
  EXPECT_EQ(c.data().val_width(), 192);
  c = edited("dat_t", {.image_size = 448});
  EXPECT_EQ(c.data().val_height(), 448);
  for (const config::Arg& arg : c.model().backbone().arg())
    if (arg.key() == "image_size") {
      EXPECT_EQ(arg.int_(), 448);
    }
  c = edited("upernet_r50", {.image_size = 256});
  EXPECT_EQ(c.data().augment().height(), 256);
  EXPECT_EQ(c.data().augment().scale_long_side(), 1024);
  EXPECT_EQ(c.data().val_long_side(), 1024);
}

TEST(ImageSizeFlag, LeavesNothingBehind) {
  for (const char* name :
       {"bccd", "cascade_mask_rcnn_swin_t", "deim_dfine_n", "deit_b_384", "detr_r50", "dino_r50_4scale",
        "lw_detr_t", "retinanet_r50", "rf_detr_n", "rf_detr_seg_n", "rt_detr_v2_r50", "semantic_fpn_r50",
        "shapes_dat", "sign_digits", "upernet_swin_t", "vit_b"}) {
    const Recipe& recipe = find_recipe(name, "");
    const Config before = resolve_config(parse_config(recipe.text, recipe.name));
    const int64_t side = before.data().val_height() > 0
                             ? std::max(before.data().val_height(), before.data().val_width())
                             : before.data().val_short_side();
    EXPECT_TRUE(flag_edits(before, {.image_size = side}).empty()) << recipe.name;
    const FittedRecipe twice = fit_recipe(recipe, {}, {}, true, {.image_size = 2 * side});
    const Config after = resolve_config(twice.config);
    for (const auto& [was, is] :
         {std::pair{before.data().augment().height(), after.data().augment().height()},
          std::pair{before.data().val_height(), after.data().val_height()},
          std::pair{before.data().val_width(), after.data().val_width()}})
      EXPECT_EQ(is, 2 * was) << recipe.name;
    for (const std::string& note : twice.notes)
      EXPECT_FALSE(note.starts_with("warning")) << recipe.name << ": " << note;
  }
}

TEST(ImageSizeFlag, WhatItCannotChangeIsRefused) {
  const Config config = parse_config(find_recipe("rt_detr_r18", "").text, "rt_detr_r18");
  EXPECT_EQ(
      input_error([&] { flag_edits(config, {.image_size = 333}); }),
      "--image-size: 333 is not a multiple of 32, as data.augment.multi_scale_heights are; expected 320 or 352");
  EXPECT_EQ(
      input_error([&] { size_edits(config, 16); }),
      "--image-size: 16 is not a multiple of 32, as data.augment.multi_scale_heights are; expected 32 or 64");
  EXPECT_EQ(size_edits(config, 320), (std::vector<std::string>{"data.val_height=320", "data.val_width=320"}));
  EXPECT_TRUE(size_edits(config, 0).empty());
}

TEST(EpochsFlag, MovesWhatBeginsOrEndsAtAnEpoch) {
  Config c = edited("deformable_detr_r50", {.epochs = 10});
  EXPECT_EQ(c.train().epochs(), 10);
  ASSERT_EQ(c.schedule().drop_epochs_size(), 1);
  EXPECT_DOUBLE_EQ(c.schedule().drop_epochs(0), 8) << "40 of 50";
  c = edited("upernet_r50", {.epochs = 10});
  EXPECT_EQ(c.train().epochs(), 10);
  EXPECT_EQ(c.train().max_steps(), 0);
  c = edited("deim_dfine_n", {.epochs = 80});
  EXPECT_EQ(c.data().augment().strong_stop_epoch(), 74);
  EXPECT_EQ(c.data().augment().mosaic_stop_epoch(), 39);
  EXPECT_EQ(c.schedule().flat_epochs(), 80);
  // A run that continues keeps its schedule.
  const Config config = parse_config(find_recipe("deformable_detr_r50", "").text, "deformable_detr_r50");
  const std::vector<FlagEdit> edits = flag_edits(config, {.epochs = 100}, true);
  ASSERT_EQ(edits.size(), 1u);
  EXPECT_EQ(edits[0].assignment, "train.epochs=100");
}

TEST(BatchFlag, KeepsTheImagesOfAStep) {
  for (const auto& [batch, gathered] : {std::pair{16, 1}, {4, 4}, {6, 3}, {1, 16}, {64, 1}}) {
    const Config c = edited("rt_detr_r18", {.batch = batch});
    EXPECT_EQ(c.data().batch_size(), batch);
    EXPECT_EQ(c.train().accumulate(), gathered) << batch;
  }
}

TEST(Habits, NameWhatIsHere) {
  struct Row {
    const char *word, *command, *expected;
  };
  for (const Row& row :
       {Row{"--imgsz", "train", "--image-size N"}, Row{"imgsz=640", "train", "--image-size N"},
        Row{"--batch-size=4", "train", "--batch N"}, Row{"--workers", "train", "data.workers=N"},
        Row{"--weights", "train", "--init-from FILE"}, Row{"--weights", "predict", "--checkpoint FILE"},
        Row{"--name", "train", "--output DIR"}, Row{"--project", "predict", "--output DIR"},
        Row{"--Img_Size", "eval", "--image-size N"}, Row{"--conf", "predict", "--threshold T"}})
    EXPECT_EQ(ours_of_flag(row.word, row.command),
              fmt::format("use {}{} instead", row.expected[0] == '-' ? "" : "--set ", row.expected))
        << row.word;
  EXPECT_EQ(ours_of_flag("--nothing", "train"), "");
  EXPECT_EQ(ours_of_flag("--plots", "train"), "not needed: it is always on");
  EXPECT_EQ(ours_of_flag("--conf", "train"), "");
  EXPECT_EQ(ours_of_flag("", "train"), "");
  EXPECT_EQ(ours_of_command("val"), "eval");
  EXPECT_EQ(ours_of_command("trian"), "");
  EXPECT_EQ(ours_of_model("yolov8n.pt"), "dfine_n or rt_detr_r18");
  EXPECT_EQ(ours_of_model("rt_detr_18"), "");
}

// A recipe that is named for a backbone has it.
TEST(Habits, NameRecipesWithTheBackbone) {
  for (const auto& [model, type, depth] :
       {std::tuple{"resnet18", "resnet", 18}, std::tuple{"resnet-34", "resnet", 34},
        std::tuple{"resnet50", "resnet", 50}, std::tuple{"resnet101", "resnet", 101},
        std::tuple{"resnet152", "resnet", 0}, std::tuple{"hgnetv2_b0", "hgnet", 0},
        std::tuple{"dinov2_vits14", "dinov2", 0}}) {
    std::istringstream words(ours_of_model(model));
    int named = 0;
    for (std::string word; words >> word;) {
      if (word.ends_with(',')) word.pop_back();
      const auto recipe = std::ranges::find(recipes(), word, &Recipe::name);
      if (recipe == recipes().end()) continue;
      const Config config = resolve_config(parse_config(recipe->text, word));
      EXPECT_EQ(config.model().backbone().type(), type) << word;
      EXPECT_TRUE(depth == 0 || config.model().backbone().depth() == depth) << word;
      ++named;
    }
    EXPECT_GE(named, 2) << model;
  }
}

// Recipes that are named must exist, and no flag of ours is said to be another program's.
TEST(Habits, NameRecipesThatAreThere) {
  for (const char* model :
       {"yolov8n", "yolo11s", "rtdetr-l", "rtdetr-x", "rfdetr", "rf_detr_nano", "rf-detr-base", "d-fine-n",
        "deim_m", "fasterrcnn_resnet50_fpn", "maskrcnn", "resnet50"}) {
    const std::string ours = ours_of_model(model);
    EXPECT_FALSE(ours.empty()) << model;
    bool names_one = false;
    for (const Recipe& recipe : recipes())
      names_one = names_one || ours.find(recipe.name) != std::string::npos;
    EXPECT_TRUE(names_one) << model << ": " << ours;
  }
}

TEST(QuickFlags, ASetOfTheSameFieldMustAgree) {
  const QuickFlags flags{.epochs = 4, .batch = 2, .learning_rate = 1e-4};
  const DataFlags data{.folders = {"a", "b"}, .classes = {"cat"}};
  const auto refused = [&](const std::vector<std::string>& sets) {
    return input_error([&] { refuse_conflicts(named_fields(flags, data), sets); });
  };
  refuse_conflicts(named_fields(flags, data),
                   {"train.epochs=4.0", "data.batch_size= 2", "optimizer.learning_rate=0.0001",
                    "data.folder='a'", "data.more_folders=b", "data.classes=[cat]",
                    "schedule.warmup_epochs=3", "data.val_height=64", "train={max_steps: 3}"});
  refuse_conflicts(named_fields({}), {"train.epochs=3"});
  EXPECT_EQ(refused({"seed=1", "train.epochs=3"}),
            "--epochs 4 and --set train.epochs=3 set the same field; give one of them");
  EXPECT_TRUE(refused({"train={epochs: 5}"}).starts_with("--epochs 4 and --set train={epochs: 5} set"));
  EXPECT_TRUE(refused({"data.batch_size=3"}).starts_with("--batch 2 and "));
  EXPECT_TRUE(refused({"optimizer.learning_rate=1"}).starts_with("--lr 0.0001 and "));
  EXPECT_TRUE(refused({"data.folder=c"}).starts_with("--data a and "));
  EXPECT_TRUE(refused({"data.more_folders=[]"}).starts_with("--data a --data b and "));
  EXPECT_TRUE(refused({"data.classes=cat,dog"}).starts_with("--classes cat and "));
}

}  // namespace
}  // namespace saccade
