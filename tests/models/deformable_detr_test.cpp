// Tests Deformable DETR's official names and initial values, and wrong configurations. Parameter counts:
// tests/train/config/recipes_test.cpp.
#include <gtest/gtest.h>

#include <set>

#include "models/build.h"
#include "tests/models/schema_args.h"

namespace saccade {
namespace {

Args official_args(bool two_stage) {
  Args model = test::schema_args("deformable_detr");
  Args& own = model.section("deformable_detr");
  own.set("box_refine", true);
  own.set("two_stage", two_stage);
  return model;
}

TEST(DeformableDetr, CarriesTheOfficialNames) {
  auto model = test::build_detector(official_args(true), 91);
  std::set<std::string> names;
  for (const NamedTensor& t : model->named_tensors()) names.insert(t.name);
  for (const char* name :
       {"backbone.0.body.conv1.weight", "backbone.0.body.bn1.running_var",
        "backbone.0.body.layer2.0.downsample.0.weight", "backbone.0.body.layer4.2.conv3.weight",
        "input_proj.3.0.bias", "input_proj.0.1.weight", "transformer.level_embed",
        "transformer.encoder.layers.5.self_attn.sampling_offsets.weight",
        "transformer.encoder.layers.0.linear1.bias",
        "transformer.decoder.layers.0.cross_attn.value_proj.weight",
        "transformer.decoder.layers.0.self_attn.in_proj_weight",
        "transformer.decoder.layers.0.self_attn.out_proj.bias",
        "transformer.decoder.bbox_embed.6.layers.2.weight", "transformer.decoder.class_embed.6.weight",
        "class_embed.0.bias", "bbox_embed.5.layers.0.weight", "transformer.enc_output_norm.weight",
        "transformer.pos_trans.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("query_embed.weight"));
  EXPECT_FALSE(names.contains("transformer.reference_points.weight"));
}

TEST(DeformableDetr, StartsAsTheOfficialCode) {
  Args args = official_args(false);
  args.section("backbone").set("depth", int64_t{18});
  auto model = test::build_detector(args, 91);
  model->initialize(7);
  auto find = [&](const std::string& name) { return test::values_of(*model, name); };
  // Scores start at 0.01; only the first head starts from boxes of sigmoid(-2); the heads are clones.
  EXPECT_NEAR(find("class_embed.3.bias")[17], -4.59512, 1e-5);
  EXPECT_EQ(find("bbox_embed.0.layers.2.bias"), (std::vector<float>{0, 0, -2, -2}));
  EXPECT_EQ(find("bbox_embed.1.layers.2.bias"), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(find("bbox_embed.0.layers.0.weight"), find("bbox_embed.4.layers.0.weight"));
  EXPECT_EQ(find("class_embed.0.weight"), find("class_embed.5.weight"));
  // Head 1 of 8 looks along the diagonal; its second point is two cells away.
  auto offsets = find("transformer.encoder.layers.2.self_attn.sampling_offsets.bias");
  size_t head1_level0_point1 = (1 * 4 * 4 + 1) * 2;
  EXPECT_NEAR(offsets[head1_level0_point1], 2, 1e-6);
  EXPECT_NEAR(offsets[head1_level0_point1 + 1], 2, 1e-6);
  // Another seed gives other weights, the same seed the same ones.
  auto before = find("transformer.decoder.layers.0.self_attn.in_proj_weight");
  model->initialize(8);
  EXPECT_NE(before, find("transformer.decoder.layers.0.self_attn.in_proj_weight"));
  model->initialize(7);
  EXPECT_EQ(before, find("transformer.decoder.layers.0.self_attn.in_proj_weight"));
}

TEST(DeformableDetr, NamesTheWrongField) {
  auto expect = [](Args model, const std::string& text) {
    try {
      test::build_detector(model, 5);
      ADD_FAILURE() << "no error with \"" << text << "\"";
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  const Args defaults = test::schema_args("deformable_detr");
  Args heads = defaults;
  heads.section("transformer").set("heads", int64_t{7});
  expect(heads, "transformer.hidden_dim");
  Args unknown = defaults;
  unknown.section("transformer").set("querys", int64_t{7});
  expect(unknown, "transformer.querys");
  Args depth = defaults;
  depth.section("backbone").set("depth", int64_t{51});
  expect(depth, "backbone.depth");
  Args attention = defaults;
  attention.section("transformer").section("encoder_attention").set("type", std::string("ms_deform_atn"));
  expect(attention, "ms_deform_attn");
  Args other_family = defaults;
  other_family.section("detr").set("pre_norm", true);
  expect(other_family, "model.detr: not an argument here, expected one of backbone, deformable_detr, ");
}

}  // namespace
}  // namespace saccade
