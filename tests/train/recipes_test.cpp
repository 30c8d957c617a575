// The recipes of the official models: parameter counts (all, trained) against those of the official code, and
// multiply-accumulates (docs/complexity.md) against the published figures.
#include <gtest/gtest.h>

#include "models/build.h"
#include "models/summary.h"
#include "train/config.h"
#include "train/options.h"

namespace saccade {
namespace {

struct Official {
  const char* recipe;
  int64_t parameters, trainable;
};

std::shared_ptr<Detector> build_recipe(const std::string& name) {
  Config config = load_config(SACCADE_SOURCE_DIR "/configs/" + name + ".textproto");
  return build_detector(model_args(config), logit_columns(config, config.model().num_classes()));
}

class OfficialRecipe : public testing::TestWithParam<Official> {};

TEST_P(OfficialRecipe, HasTheOfficialParameterCounts) {
  auto model = build_recipe(GetParam().recipe);
  EXPECT_EQ(model->parameter_count(), GetParam().parameters);
  EXPECT_EQ(model->parameter_count(true), GetParam().trainable);
}

// 8 %: one image of 800 x 1066 pixels stands for the average over COCO's images.
TEST(OfficialRecipes, CostWhatIsPublished) {
  for (auto [recipe, published] : {std::pair{"detr_r50", 86e9}, std::pair{"deformable_detr_r50", 173e9}}) {
    auto model = build_recipe(recipe);
    model->initialize(1);
    EXPECT_NEAR(static_cast<double>(summarize(*model, 800, 1066).macs), published, 0.08 * published)
        << recipe;
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, OfficialRecipe,
                         testing::Values(Official{"detr_r50", 41524768, 41302368},
                                         Official{"detr_r50_dc5", 41524768, 41302368},
                                         Official{"detr_r101", 60464672, 60242272},
                                         Official{"detr_r101_dc5", 60464672, 60242272},
                                         Official{"deformable_detr_r50_single_scale", 34066593, 33844193},
                                         Official{"deformable_detr_r50_single_scale_dc5", 34066593, 33844193},
                                         Official{"deformable_detr_r50", 40069665, 39847265},
                                         Official{"deformable_detr_r50_refine", 40849660, 40627260},
                                         Official{"deformable_detr_r50_two_stage", 41181529, 40959129}),
                         [](const auto& recipe) { return std::string(recipe.param.recipe); });

}  // namespace
}  // namespace saccade
