// Tests DINO's parameter counts, official names and initial values. tests/train/golden/golden_dino_test.cpp
// compares it with PyTorch.
#include <gtest/gtest.h>

#include <set>

#include "core/tensor/execution.h"
#include "models/build.h"
#include "tests/models/schema_args.h"

namespace saccade {
namespace {

std::shared_ptr<Detector> sketch_dino(int64_t levels) {
  ExecutionScope scope;
  execution().sketch = true;
  Args model = test::schema_args("dino");
  model.section("transformer").set("levels", levels);
  return test::build_detector(model, 91);
}

// The backbone's batch norms do not count: they are frozen, so their tensors are buffers.
TEST(Dino, HasThePublishedParameters) {
  EXPECT_EQ(sketch_dino(4)->parameter_count(), 46893182);
  EXPECT_EQ(sketch_dino(5)->parameter_count(), 47255806);
}

TEST(Dino, CarriesTheOfficialNames) {
  std::set<std::string> names;
  for (const NamedTensor& t : sketch_dino(4)->named_tensors()) names.insert(t.name);
  for (const char* name :
       {"backbone.0.body.layer1.0.conv1.weight", "input_proj.3.0.weight", "input_proj.0.1.bias",
        "label_enc.weight", "transformer.level_embed", "transformer.tgt_embed.weight",
        "transformer.enc_output.weight", "transformer.enc_output_norm.bias",
        "transformer.enc_out_class_embed.bias", "transformer.enc_out_bbox_embed.layers.2.weight",
        "transformer.encoder.layers.5.self_attn.sampling_offsets.weight",
        "transformer.decoder.layers.0.cross_attn.value_proj.weight",
        "transformer.decoder.layers.5.self_attn.in_proj_weight", "transformer.decoder.norm.weight",
        "transformer.decoder.ref_point_head.layers.1.bias",
        "transformer.decoder.bbox_embed.5.layers.0.weight", "transformer.decoder.class_embed.0.bias",
        "class_embed.5.weight", "bbox_embed.0.layers.2.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("transformer.pos_trans.weight"));
}

TEST(Dino, StartsAsTheOfficialCode) {
  Args args = test::schema_args("dino");
  args.section("backbone").set("depth", int64_t{18});
  args.section("transformer").set("decoder_layers", int64_t{1});
  args.section("transformer").set("encoder_layers", int64_t{1});
  auto model = test::build_detector(args, 91);
  model->initialize(7);
  auto find = [&](const std::string& name) { return test::values_of(*model, name); };
  EXPECT_NEAR(find("class_embed.0.bias")[17], -4.59512, 1e-5);
  EXPECT_EQ(find("class_embed.0.weight"), find("transformer.enc_out_class_embed.weight"));
  EXPECT_EQ(find("bbox_embed.0.layers.1.weight"), find("transformer.enc_out_bbox_embed.layers.1.weight"));
  EXPECT_EQ(find("bbox_embed.0.layers.2.weight"), std::vector<float>(4 * 256));
  const auto labels = find("label_enc.weight");
  ASSERT_EQ(labels.size(), 92u * 256);
  EXPECT_EQ(std::vector<float>(labels.end() - 256, labels.end()), std::vector<float>(256));
}

TEST(Dino, NamesTheWrongField) {
  auto expect = [](const std::string& key, int64_t value, const std::string& text) {
    Args model = test::schema_args("dino");
    model.section("transformer").set(key, value);
    try {
      test::build_detector(model, 5);
      ADD_FAILURE() << "no error with \"" << text << "\"";
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  expect("levels", 2, "model.transformer.levels: 2 levels for 3 backbone outputs");
  expect("extra_query_groups", 2, "model.transformer.denoising: cannot be combined with extra_query_groups");
  Args refine = test::schema_args("dino");
  refine.section("deformable_detr").set("box_refine", true);
  EXPECT_THROW(test::build_detector(refine, 5), InputError);
}

}  // namespace
}  // namespace saccade
