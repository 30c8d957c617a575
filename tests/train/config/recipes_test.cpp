// Every recipe in configs/ builds its model, and every parameter group finds its parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "train/checkpoints/load_model.h"
#include "train/config/options.h"
#include "train/config/task.h"

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
  std::shared_ptr<Module> model =
      build_model(c, c.model().num_classes() > 0 ? c.model().num_classes() : task_of(c).usual_classes);
  Optimizer optimizer(model->parameters(), optimizer_options(c.optimizer()));
  EXPECT_GT(optimizer.parameter_count(), 0);
  check_schedule(schedule_options(c.schedule()));
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

TEST(Recipes, AreThere) {
  std::vector<std::string> there = recipes();
  for (const char* name : {"quickstart", "bccd", "swin_t", "swin_s", "swin_b", "vit_ti", "vit_s", "vit_b",
                           "dat_t", "dat_s", "dat_b", "deformable_detr_swin_t", "deformable_detr_dat_t",
                           "dino_r50_4scale", "dino_r50_5scale", "dino_swin_l", "dino_swin_t", "dino_dat_t"})
    EXPECT_NE(std::find(there.begin(), there.end(), name), there.end()) << name;
}

}  // namespace
}  // namespace saccade
