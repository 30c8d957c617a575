// Tests that every recipe in configs/ builds its model, and every parameter group finds its parameters.
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
  const Config recipe = load_config(SACCADE_SOURCE_DIR "/configs/" + GetParam() + ".textproto");
  EXPECT_TRUE(recipe.has_precision());
  Config c = resolve_config(recipe);
  validate_config(c);
  const int64_t classes =
      c.model().num_classes() > 0 ? c.model().num_classes() : task_of(c).usual_classes().count;
  constexpr int64_t kLarge = 100'000'000;  // parameters, which with their averages would be gigabytes
  if (auto sketch = sketch_model(build_args(c), classes); sketch->parameter_count() > kLarge) {
    for (const config::ParameterGroup& group : c.optimizer().group())
      EXPECT_TRUE(std::ranges::any_of(sketch->parameters(), [&](const NamedTensor& t) {
        return std::regex_search(t.name, std::regex(group.regex()));
      })) << group.regex();
  } else {
    // The values are not drawn here, since that would take most of the time.
    Optimizer optimizer(build_model(c, classes)->parameters(), c.optimizer());
    EXPECT_GT(optimizer.parameter_count(), 0);
  }
  check_schedule(c.schedule());
  EXPECT_FALSE(train_loader(c).augment.empty());
  EXPECT_EQ(eval_augment(c).size(), 1u);
  check_mix_options(train_loader(c).mix);
}

INSTANTIATE_TEST_SUITE_P(All, Recipe, testing::ValuesIn(recipes()), [](const auto& r) { return r.param; });

// The published counts include frozen norms.
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

// Returns the number of parameters left when the norms of the hybrid encoder's convolutions, except those
// before it, become biases, its blocks' branches one, and heads before the last layer are dropped.
int64_t fused_parameters(const Module& model, int64_t layers) {
  const std::regex before(R"(encoder\.input_proj\..*)"), norm(R"(encoder\..*\.norm\.weight)"),
      branch(R"(encoder\..*\.bottlenecks\.[0-9]+\.conv2\..*)"),
      head(fmt::format(R"(decoder\.(dec_score_head|decoder\.lqe_layers)\.[0-{}]\..*)", layers - 2));
  int64_t count = 0;
  for (const NamedTensor& t : model.parameters())
    if (std::regex_match(t.name, before) ||
        (!std::regex_match(t.name, norm) && !std::regex_match(t.name, branch) &&
         !std::regex_match(t.name, head)))
      count += t.var.shape().numel();
  return count;
}

// The frozen norms of L and X do not count as parameters.
TEST(Recipes, DFineHasThePublishedSizes) {
  for (auto [size, expected, fused] : {std::tuple{"n", 3'782'693, 3'753'799},
                                       {"s", 10'321'877, 10'237'491},
                                       {"m", 19'590'064, 19'248'189},
                                       {"l", 31'244'152, 30'724'195},
                                       {"x", 62'621'560, 61'601'635}}) {
    Config c = load_config(SACCADE_SOURCE_DIR "/configs/dfine_" + std::string(size) + ".textproto");
    const auto model = sketch_model(build_args(c), c.model().num_classes());
    EXPECT_EQ(model->parameter_count(), expected) << size;
    EXPECT_EQ(fused_parameters(*model, c.model().transformer().decoder_layers()), fused) << size;
  }
}

TEST(Recipes, LwDetrAndRfDetrHaveThePublishedSizes) {
  for (auto [name, all, evaluated] : {std::tuple{"rf_detr_n", 30'467'298, 26'863'662},
                                      {"rf_detr_s", 32'111'170, 28'507'534},
                                      {"rf_detr_m", 33'687'458, 30'083'822},
                                      {"rf_detr_l", 33'933'218, 30'329'582},
                                      {"rf_detr_seg_n", 33'577'475, 30'597'839},
                                      {"rf_detr_seg_s", 33'711'107, 30'731'471},
                                      {"rf_detr_seg_m", 35'694'259, 32'402'623},
                                      {"rf_detr_seg_l", 35'873'971, 32'582'335},
                                      {"rf_detr_seg_xl", 38'113'635, 34'509'999},
                                      {"rf_detr_seg_2xl", 38'648'163, 35'044'527},
                                      {"lw_detr_t", 12'052'002, 9'072'366},
                                      {"lw_detr_s", 14'557'378, 10'953'742},
                                      {"lw_detr_m", 28'237'378, 24'633'742},
                                      {"lw_detr_l", 46'823'650, 39'656'494},
                                      {"lw_detr_x", 118'033'378, 110'866'222}}) {
    Config c = load_config(SACCADE_SOURCE_DIR "/configs/" + std::string(name) + ".textproto");
    EXPECT_EQ(sketch_model(build_args(c), c.model().num_classes())->parameter_count(), all) << name;
    apply_set(c, "model.transformer.extra_query_groups=0");
    EXPECT_EQ(sketch_model(build_args(c), c.model().num_classes())->parameter_count(), evaluated) << name;
  }
}

// The counts are for the 1,000 classes of ImageNet.
TEST(Recipes, ClassifiersHaveThePublishedSizes) {
  for (auto [name, expected] : {std::pair{"swin_t", 28'288'354},
                                {"vit_s", 22'050'664},
                                {"pvt_t", 13'229'288},
                                {"pvt_s", 24'485'864},
                                {"pvt_m", 44'208'104},
                                {"pvt_l", 61'369'320},
                                {"dat_t", 28'319'138},
                                {"dat_p", 30'677'120},
                                {"dat_pp_t", 23'962'876},
                                {"dat_pp_s", 53'127'366},
                                {"dat_pp_b", 93'690'640},
                                {"vit_l", 304'326'632},
                                {"deit_b_384", 86'859'496},
                                {"swin_b_384", 87'903'584},
                                {"swin_l", 196'532'476},
                                {"swin_l_384", 196'735'516}}) {
    Config c = load_config(SACCADE_SOURCE_DIR "/configs/" + std::string(name) + ".textproto");
    EXPECT_EQ(sketch_model(build_args(c), 1000)->parameter_count(), expected) << name;
  }
}

// The counts are for COCO's 80 classes, and include a norm behind each stage of Swin and DAT.
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
                                {"mask_rcnn_dat_s", 69'206'650},
                                {"retinanet_dat_pp_t", 33'684'360},
                                {"retinanet_dat_pp_s", 63'297'810},
                                {"mask_rcnn_dat_pp_t", 44'781'700},
                                {"mask_rcnn_dat_pp_s", 74'403'342},
                                {"mask_rcnn_pvt_s", 44'138'736},
                                {"cascade_mask_rcnn_r50", 77'324'606},
                                {"cascade_mask_rcnn_swin_t", 85'629'804},
                                {"cascade_mask_rcnn_swin_s", 106'947'708},
                                {"cascade_mask_rcnn_swin_b", 144'977'002},
                                {"cascade_mask_rcnn_dat_t", 85'660'588},
                                {"cascade_mask_rcnn_dat_s", 107'041'852},
                                {"cascade_mask_rcnn_dat_b", 145'090'410},
                                {"cascade_mask_rcnn_dat_pp_t", 81'436'998},
                                {"cascade_mask_rcnn_dat_pp_s", 110'468'816},
                                {"cascade_mask_rcnn_dat_pp_b", 150'899'418}}) {
    Config c = load_config(SACCADE_SOURCE_DIR "/configs/" + std::string(name) + ".textproto");
    EXPECT_EQ(sketch_model(build_args(c), 80)->parameter_count(), expected) << name;
  }
}

// The counts are for ADE20K's 150 classes.
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

// Tests rates and decays of parameters against the official commands and files of the optimizers.
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
      {"rf_detr_n", "backbone.0.encoder.pos_embed", 0.0323256, false},
      {"rf_detr_n", "backbone.0.encoder.patch_embed.proj.weight", 0.0323256, false},
      {"rf_detr_n", "backbone.0.encoder.blocks.11.mlp.fc1.weight", 0.4704, true},
      {"rf_detr_n", "backbone.0.encoder.norm.weight", 0.735, true},  // of one dimension: no_decay_1d
      {"lw_detr_t", "backbone.0.encoder.blocks.5.attn.q_bias", 0.588, true},
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
    EXPECT_EQ(recipe(name).data().val_crop_pct(), 0.875) << name;
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
                           "dat_pp_t",
                           "dat_pp_b_384",
                           "dat_b_384",
                           "deit_b_384",
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
