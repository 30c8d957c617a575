// Every recipe in configs/ builds its model, and every parameter group finds its parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "train/checkpoints/load_model.h"
#include "train/config/options.h"
#include "train/config/task.h"
#include "train/optimizers/optimizer.h"
#include "train/optimizers/schedule.h"

namespace saccade {
namespace {

std::vector<std::string> recipes() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SACCADE_SOURCE_DIR "/configs"))
    if (entry.path().extension() == ".textproto") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Recipe : public testing::TestWithParam<std::string> {};

TEST_P(Recipe, Builds) {
  Config c = resolve_config(load_config(SACCADE_SOURCE_DIR "/configs/" + GetParam() + ".textproto"));
  validate_config(c);
  // The values are not drawn here, which would take most of the time.
  std::shared_ptr<Module> model = build_model(
      c, c.model().num_classes() > 0 ? c.model().num_classes() : task_of(c).usual_classes().count);
  Optimizer optimizer(model->parameters(), c.optimizer());
  EXPECT_GT(optimizer.parameter_count(), 0);
  check_schedule(c.schedule());
  EXPECT_FALSE(train_augment(c).empty());
  EXPECT_EQ(eval_augment(c).size(), 1u);
  check_mix_options(train_loader(c).mix);
}

INSTANTIATE_TEST_SUITE_P(All, Recipe, testing::ValuesIn(recipes()), [](const auto& r) { return r.param; });

// The published counts, those of frozen norms among them.
TEST(Recipes, RtDetrHasThePublishedSizes) {
  for (auto [size, expected] : {std::pair{"r18", 20'184'464},
                                {"r34", 31'441'668},
                                {"r50_m", 36'647'020},
                                {"r50", 42'944'620},
                                {"r101", 76'661'740}}) {
    for (const char* version : {"rt_detr_", "rt_detr_v2_"}) {
      Config c = load_config(SACCADE_SOURCE_DIR "/configs/" + std::string(version) + size + ".textproto");
      EXPECT_EQ(sketch_model(build_args(c), c.model().num_classes())->parameter_count(), expected)
          << version << size;
    }
  }
}

// The frozen norms of L and X are no parameters.
TEST(Recipes, DFineHasThePublishedSizes) {
  for (auto [size, expected] : {std::pair{"n", 3'782'693},
                                {"s", 10'321'877},
                                {"m", 19'590'064},
                                {"l", 31'244'152},
                                {"x", 62'621'560}}) {
    Config c = load_config(SACCADE_SOURCE_DIR "/configs/dfine_" + std::string(size) + ".textproto");
    EXPECT_EQ(sketch_model(build_args(c), c.model().num_classes())->parameter_count(), expected) << size;
  }
}

// With the 1,000 classes of ImageNet.
TEST(Recipes, ClassifiersHaveThePublishedSizes) {
  for (auto [name, expected] : {std::pair{"swin_t", 28'288'354},
                                {"vit_s", 22'050'664},
                                {"pvt_t", 13'229'288},
                                {"pvt_s", 24'485'864},
                                {"pvt_m", 44'208'104},
                                {"pvt_l", 61'369'320},
                                {"dat_t", 28'319'138},
                                {"dat_p", 30'677'120}}) {
    Config c = load_config(SACCADE_SOURCE_DIR "/configs/" + std::string(name) + ".textproto");
    EXPECT_EQ(sketch_model(build_args(c), 1000)->parameter_count(), expected) << name;
  }
}

// COCO's 80 classes, and a norm behind each stage of Swin and DAT.
TEST(Recipes, PyramidsHaveThePublishedSizes) {
  for (auto [name, expected] : {std::pair{"retinanet_swin_t", 38'458'798},
                                {"retinanet_swin_s", 59'776'702},
                                {"retinanet_dat_t", 38'489'582},
                                {"retinanet_dat_s", 59'870'846},
                                {"retinanet_pvt_s", 34'221'300},
                                {"faster_rcnn_r50", 41'753'056},
                                {"mask_rcnn_r50", 44'396'336},
                                {"mask_rcnn_swin_t", 47'794'602},
                                {"mask_rcnn_swin_s", 69'112'506},
                                {"mask_rcnn_dat_t", 47'825'386},
                                {"mask_rcnn_dat_s", 69'206'650}}) {
    Config c = load_config(SACCADE_SOURCE_DIR "/configs/" + std::string(name) + ".textproto");
    EXPECT_EQ(sketch_model(build_args(c), 80)->parameter_count(), expected) << name;
  }
}

// ADE20K's 150 classes.
TEST(Recipes, SegmentersHaveThePublishedSizes) {
  for (auto [name, expected] : {std::pair{"semantic_fpn_r50", 28'495'574},
                                {"semantic_fpn_dat_t", 31'924'624},
                                {"semantic_fpn_dat_s", 53'305'888},
                                {"semantic_fpn_dat_b", 91'354'446},
                                {"upernet_r50", 66'516'108},
                                {"upernet_dat_t", 59'972'646},
                                {"upernet_dat_s", 81'353'910},
                                {"upernet_dat_b", 121'393'124}}) {
    Config c = load_config(SACCADE_SOURCE_DIR "/configs/" + std::string(name) + ".textproto");
    EXPECT_EQ(sketch_model(build_args(c), 150)->parameter_count(), expected) << name;
  }
}

// Rates and decays of parameters, as the official commands and files of the optimizers have them.
TEST(Recipes, GroupsAreTheOfficialOnes) {
  struct Row {
    const char *recipe, *parameter;
    double lr_mult;
    bool decays;
  };
  const Row rows[] = {
      {"rt_detr_deim_r50", "backbone.conv1.conv1_1.norm.weight", 1, false},
      {"rt_detr_deim_r50", "backbone.conv1.conv1_1.conv.weight", 0.1, true},
      {"rt_detr_deim_r50", "decoder.decoder.layers.0.norm1.weight", 1, false},
      {"rt_detr_deim_r50", "decoder.decoder.layers.0.linear1.bias", 1, true},
      {"dfine_s", "backbone.stem.stem1.bn.weight", 0.5, true},
      {"dfine_s", "encoder.input_proj.0.norm.weight", 1, false},
      {"dfine_s", "decoder.decoder.layers.0.linear1.bias", 1, false},
      {"dfine_l", "backbone.stages.0.blocks.0.layers.0.conv.weight", 0.05, true},
      {"dfine_l", "decoder.decoder.layers.0.linear1.bias", 1, true},
      {"rt_detr_r18", "backbone.conv1.conv1_1.norm.weight", 0.1, false},
      {"rt_detr_r18", "encoder.input_proj.0.norm.weight", 1, true},
      {"rt_detr_r18", "encoder.input_proj.0.norm.bias", 1, false},
      {"rt_detr_r18", "decoder.enc_output.norm.weight", 1, true},
      {"rt_detr_r18", "decoder.decoder.layers.0.norm1.weight", 1, false},
      {"rt_detr_r34", "encoder.input_proj.0.norm.weight", 1, true},
      {"rt_detr_r34", "decoder.enc_output.norm.weight", 1, true},
      {"rt_detr_r50", "decoder.enc_output.norm.weight", 1, true},
  };
  for (const Row& row : rows) {
    const Config c = load_config(SACCADE_SOURCE_DIR "/configs/" + std::string(row.recipe) + ".textproto");
    config::ParameterGroup found;
    for (const config::ParameterGroup& group : c.optimizer().group())
      if (std::regex_search(row.parameter, std::regex(group.regex()))) {
        found = group;
        break;
      }
    EXPECT_EQ(found.lr_mult(), row.lr_mult) << row.recipe << " " << row.parameter;
    EXPECT_EQ(!found.has_weight_decay(), row.decays) << row.recipe << " " << row.parameter;
  }
}

// DINO's configuration files say 0.4, and all its training commands 1. Swin resizes to 256 and cuts out 224.
TEST(Recipes, ValuesThatTheOfficialCommandsOverride) {
  auto recipe = [](const std::string& name) {
    return resolve_config(load_config(SACCADE_SOURCE_DIR "/configs/" + name + ".textproto"));
  };
  for (const char* name : {"dino_r50_4scale", "dino_r50_5scale", "dino_swin_l", "dino_swin_t", "dino_dat_t"})
    EXPECT_EQ(recipe(name).model().transformer().denoising().box_noise(), 1) << name;
  for (const char* name : {"swin_t", "swin_s", "swin_b"})
    EXPECT_EQ(recipe(name).data().val_center(), 0.875) << name;
}

TEST(Recipes, AreThere) {
  std::vector<std::string> there = recipes();
  for (const char* name : {"quickstart",
                           "bccd",
                           "swin_t",
                           "swin_s",
                           "swin_b",
                           "vit_ti",
                           "vit_s",
                           "vit_b",
                           "pvt_t",
                           "pvt_s",
                           "pvt_m",
                           "pvt_l",
                           "dat_t",
                           "dat_s",
                           "dat_b",
                           "dat_p",
                           "deformable_detr_swin_t",
                           "deformable_detr_dat_t",
                           "dino_r50_4scale",
                           "dino_r50_5scale",
                           "dino_swin_l",
                           "dino_swin_t",
                           "dino_dat_t"})
    EXPECT_NE(std::find(there.begin(), there.end(), name), there.end()) << name;
}

}  // namespace
}  // namespace saccade
