// Tests the translation of other programs' names: the fixtures hold names and shapes of files of transformers
// and timm next to the official ones (scripts/golden/published/make_weight_names.py). To add a naming: a
// table in models/weights/weight_names.cpp and a file here.
#include "models/weights/weight_names.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "core/formats/safetensors.h"
#include "core/tensor/error.h"
#include "models/build.h"
#include "tests/test_folder.h"
#include "train/checkpoints/infer_config.h"
#include "train/config/config.h"
#include "train/config/options.h"

namespace saccade {
namespace {

const std::string kNamesFolder = SACCADE_SOURCE_DIR "/tests/golden/weight_names/";

// A file with names and shapes but without values.
class FakeFile : public WeightsFile {
 public:
  FakeFile() : WeightsFile("fake") {}
  void put(const std::string& name, const Shape& shape, const std::string& dtype = "F32") {
    add({name, dtype, shape});
  }
  // Each tensor is filled with one number, to tell the parts of a fused one.
  Tensor read(const std::string& name) const override {
    float value = name.find("query") != std::string::npos || name.find("q_proj") != std::string::npos   ? 0.f
                  : name.find("key") != std::string::npos || name.find("k_proj") != std::string::npos   ? 1.f
                  : name.find("value") != std::string::npos || name.find("v_proj") != std::string::npos ? 2.f
                                                                                                        : 3.f;
    return Tensor::full(find(name)->shape, value);
  }
};

using Shapes = std::map<std::string, std::string>;

struct NamesCase {
  FakeFile theirs;
  Shapes official;
};

void read_case(const std::string& name, NamesCase& out, const std::string& prefix = "") {
  std::ifstream in(kNamesFolder + name + ".txt");
  ASSERT_TRUE(in.good()) << name;
  bool official = false;
  for (std::string line; std::getline(in, line);) {
    if (line == "--") {
      official = true;
      continue;
    }
    std::istringstream words(line);
    std::string tensor;
    words >> tensor;
    Shape shape;
    for (int64_t size; words >> size;) shape.push_back(size);
    if (official)
      out.official[tensor] = shape.to_string();
    else
      out.theirs.put(prefix + tensor, shape);
  }
}

class Names : public testing::TestWithParam<const char*> {};

TEST_P(Names, AreTheOfficialOnes) {
  for (const char* prefix : {"", "module.", "_orig_mod.module.", "model.", "model.module.", "net."}) {
    NamesCase c;
    read_case(GetParam(), c, prefix);
    ASSERT_FALSE(c.official.empty());
    OfficialWeights weights = official_weights(c.theirs);
    Shapes translated;
    for (const NamedWeight& w : weights.tensors) translated[w.name] = w.shape.to_string();
    for (const auto& [tensor, shape] : c.official) EXPECT_EQ(translated[tensor], shape) << tensor;
    EXPECT_EQ(translated.size(), c.official.size()) << weights.naming;
    EXPECT_EQ(weights.naming.find("official") != std::string::npos,
              std::string(GetParam()).starts_with("official"));
  }
}

TEST_P(Names, QueryKeyAndValueAreJoinedInThisOrder) {
  NamesCase c;
  read_case(GetParam(), c);
  for (const NamedWeight& w : official_weights(c.theirs).tensors) {
    if (w.parts.size() == 1) continue;
    Tensor joined = read_weight(c.theirs, w);
    ASSERT_EQ(joined.shape(), w.shape);
    // If there are two parts, the first is the key.
    const int64_t parts = std::ssize(w.parts), rows = w.shape[0] / parts;
    for (int64_t part = 0; part < parts; ++part)
      for (float v : joined.slice(0, part * rows, (part + 1) * rows).to_vector<float>())
        ASSERT_EQ(v, static_cast<float>(part + 3 - parts)) << w.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, Names,
                         testing::Values("hf_vit", "hf_vit_memory", "hf_deit", "hf_pvt", "timm_swin",
                                         "hf_swin", "hf_swin_memory", "official_swin", "hf_resnet_bottleneck",
                                         "hf_resnet_basic", "hf_detr_sine", "hf_detr_sine_memory",
                                         "hf_detr_learned", "hf_detr_learned_memory", "hf_uper_net_resnet",
                                         "hf_uper_net_swin", "hf_uper_net_swin_memory"),
                         [](const auto& p) { return std::string(p.param); });

// mmdetection merges patches by torch.nn.Unfold: its own converter takes the official [o, 4 C] as [o, 4, C]
// with the places in the order 0, 2, 1, 3, and puts the channels first.
TEST(WeightNames, OfMmdetectionsSwinAreInTheOfficialOrder) {
  constexpr int64_t kOut = 3, kChannels = 2;
  std::vector<float> reduction(kOut * 4 * kChannels), norm(4 * kChannels);
  std::iota(reduction.begin(), reduction.end(), 1.F);
  std::iota(norm.begin(), norm.end(), 100.F);
  const auto converted = [&](const std::vector<float>& official, int64_t rows) {
    std::vector<float> out;
    for (int64_t o = 0; o < rows; ++o)
      for (int64_t c = 0; c < kChannels; ++c)
        for (const int64_t place : {0, 2, 1, 3})
          out.push_back(official[static_cast<size_t>(o * 4 * kChannels + place * kChannels + c)]);
    return out;
  };
  for (const std::string place : {"", "backbone."}) {
    TestFolder folder;
    const Tensor block = Tensor::full({2}, 7);
    write_safetensors(
        folder / "mm.safetensors",
        {{place + "stages.1.downsample.reduction.weight",
          Tensor::from(Shape{kOut, 4 * kChannels}, converted(reduction, kOut))},
         {place + "stages.1.downsample.norm.bias", Tensor::from(Shape{4 * kChannels}, converted(norm, 1))},
         {place + "stages.1.blocks.0.attn.w_msa.relative_position_bias_table", block},
         {place + "stages.1.blocks.0.attn.w_msa.qkv.weight", block},
         {place + "stages.1.blocks.0.attn.w_msa.relative_position_index", block},
         {place + "stages.1.blocks.0.ffn.layers.0.0.weight", block},
         {place + "stages.1.blocks.0.ffn.layers.1.bias", block},
         {place + "stages.1.blocks.0.norm2.bias", block},
         {place + "patch_embed.projection.weight", block},
         {place + "norm1.weight", block},
         {"rpn_head.rpn_cls.weight", block},
         {"decode_head.psp_modules.0.1.bn.weight", block}},
        {});
    const SafetensorsReader file(folder / "mm.safetensors");
    const OfficialWeights weights = official_weights(file);
    EXPECT_EQ(weights.naming, "mmdetection Swin");
    for (const char* name :
         {"layers.1.blocks.0.attn.relative_position_bias_table", "layers.1.blocks.0.attn.qkv.weight",
          "layers.1.blocks.0.mlp.fc1.weight", "layers.1.blocks.0.mlp.fc2.bias",
          "layers.1.blocks.0.norm2.bias", "patch_embed.proj.weight", "norm1.weight"})
      EXPECT_NE(weights.find(place + name), nullptr) << name;
    EXPECT_NE(weights.find("rpn_head.rpn_cls.weight"), nullptr);
    EXPECT_NE(weights.find("decode_head.psp_modules.0.1.bn.weight"), nullptr);
    EXPECT_EQ(weights.tensors.size(), 11u);
    const auto values = [&](const std::string& name) {
      return read_weight(file, *weights.find(place + name)).to_vector<float>();
    };
    EXPECT_EQ(values("layers.1.downsample.reduction.weight"), reduction);
    EXPECT_EQ(values("layers.1.downsample.norm.bias"), norm);
  }
}

std::string names_error(const FakeFile& file) {
  try {
    official_weights(file);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(WeightNames, WhatDoesNotFitIsAnError) {
  const std::string layer = "model.decoder.layers.0.self_attn.";
  FakeFile missing, sizes, twice;
  for (FakeFile* f : {&missing, &sizes, &twice}) f->put("class_labels_classifier.weight", {2, 4});
  missing.put(layer + "q_proj.weight", {4, 4});
  missing.put(layer + "v_proj.weight", {4, 4});
  EXPECT_NE(names_error(missing).find("needs query, key and value, but has only 2"), std::string::npos);
  sizes.put(layer + "q_proj.weight", {4, 4});
  sizes.put(layer + "k_proj.weight", {4, 5});
  sizes.put(layer + "v_proj.weight", {4, 4});
  EXPECT_NE(names_error(sizes).find("k_proj.weight\" is F32 [4, 5], but query is F32 [4, 4]"),
            std::string::npos);
  FakeFile key_alone;
  key_alone.put("pvt.encoder.patch_embeddings.0.position_embeddings", {1, 4, 8});
  key_alone.put("pvt.encoder.block.0.0.attention.self.key.weight", {8, 8});
  EXPECT_NE(names_error(key_alone).find("\"block1.0.attn.kv.weight\" needs key and value, but has only 1"),
            std::string::npos);
  twice.put("class_embed.weight", {2, 4});
  EXPECT_NE(names_error(twice).find("two tensors are \"class_embed.weight\""), std::string::npos);
}

// ---- what the official modules have -----------------------------------------------------------------------

struct PublishedNames {
  const char *name, *recipe;
  size_t tensors;
};

class OfficialModules : public testing::TestWithParam<PublishedNames> {};

// Our model of the recipe has exactly the tensors of the official one: load_state_dict(strict=True) accepts
// our files.
TEST_P(OfficialModules, HaveOurTensors) {
  NamesCase c;
  read_case(GetParam().name, c);
  EXPECT_EQ(c.theirs.entries().size(), GetParam().tensors);
  Config config = load_config(SACCADE_SOURCE_DIR "/configs/" + std::string(GetParam().recipe) + ".textproto");
  auto model = build_as<Detector>(model_args(config), config.model().num_classes(), criterion_args(config));
  Shapes ours, official;
  for (const NamedTensor& t : model->named_tensors()) ours[t.name] = t.var.shape().to_string();
  for (const WeightEntry& e : c.theirs.entries()) official[e.name] = e.shape.to_string();
  EXPECT_EQ(ours, official);
}

// The recipe's model follows from the names and shapes alone.
TEST_P(OfficialModules, TellTheirConfiguration) {
  NamesCase c;
  read_case(GetParam().name, c);
  OfficialWeights weights = official_weights(c.theirs);
  auto inferred = infer_config(c.theirs, weights);
  ASSERT_TRUE(inferred.has_value());
  Config recipe = load_config(SACCADE_SOURCE_DIR "/configs/" + std::string(GetParam().recipe) + ".textproto");
  auto text = [](const Config& config) {
    Config part;
    *part.mutable_model() = resolve_config(config).model();
    *part.mutable_criterion() = resolve_config(config).criterion();
    return config_text(part);
  };
  EXPECT_EQ(text(inferred->config), text(recipe));
}

INSTANTIATE_TEST_SUITE_P(
    PublishedNames, OfficialModules,
    testing::Values(PublishedNames{"official_detr", "detr_r50", 458},
                    PublishedNames{"official_deformable_detr", "deformable_detr_r50", 561},
                    PublishedNames{"official_deformable_detr_refine", "deformable_detr_r50_refine", 597},
                    PublishedNames{"official_deformable_detr_two_stage", "deformable_detr_r50_two_stage",
                                   630}),
    [](const auto& p) { return std::string(p.param.recipe); });

}  // namespace
}  // namespace saccade
