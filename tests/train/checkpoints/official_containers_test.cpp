// Files as the official trainers save them, with a pickled Namespace, averages under `ema.module` and the
// optimizer's state, hold the models of transformers' files; scripts/golden/published/official_containers.py
// and transformers_rf_detr.py make them.
#include "tests/test_folder.h"
#include "tests/train/checkpoints/transformers_golden.h"

namespace saccade {
namespace {

struct Container {
  const char *folder, *golden, *section;
  std::vector<const char*> sets;  // what such a file does not say of so small a model
};

class OfficialContainers : public testing::TestWithParam<Container> {};

TEST_P(OfficialContainers, AreTheSameModels) {
  const Container& c = GetParam();
  const std::string folder = fmt::format("{}/tests/golden/{}/", SACCADE_SOURCE_DIR, c.folder),
                    path = folder + "official/model.pth";
  EXPECT_EQ(open_weights(path)->section(), c.section);
  auto model = load_detector(path, [&](Config& config) {
    EXPECT_EQ(config.model().type(), c.folder);
    if (config.model().type() == "rf_detr") {
      EXPECT_EQ(config.model().lw_detr().cross_heads(), 8);
      EXPECT_EQ(config.data().val_height(), 64);
    }
    for (const char* set : c.sets) apply_set(config, set);
  });
  ASSERT_NE(model, nullptr);
  expect_results(*model, folder + c.golden);
}

INSTANTIATE_TEST_SUITE_P(
    Families, OfficialContainers,
    testing::Values(  // transformers' position code of rectangles is not the official one.
        Container{"d_fine",
                  "small.golden.safetensors",
                  "ema.module",
                  {"model.d_fine.hybrid_encoder.transposed_position=false"}},
        Container{"rf_detr",
                  "golden.safetensors",
                  "model",
                  {"model.backbone.outputs=[1, 3]", "model.backbone.arg.windowed_blocks=[0, 2]",
                   "model.backbone.arg.heads=2"}},
        Container{"lw_detr",
                  "golden.safetensors",
                  "model",
                  {"model.backbone.outputs=[1, 3]", "model.backbone.arg.windowed_blocks=[0, 2]",
                   "model.backbone.arg.windows=2", "model.backbone.arg.heads=2"}}),
    [](const auto& each) { return std::string(each.param.folder); });

// D-FINE with SiLU and a layer of its training.
TEST(OfficialNames, OfRtDetrV4AreDFines) {
  TestFolder folder;
  const auto file = open_weights(SACCADE_SOURCE_DIR "/tests/golden/d_fine/official/model.pth");
  NamedValues tensors{{"encoder.feature_projector.0.weight", Tensor::zeros({8, 16})}};
  for (const WeightEntry& e : file->entries()) tensors.emplace_back(e.name, file->read(e.name));
  write_safetensors(folder / "v4.safetensors", tensors, {});
  const auto model = load_detector(folder / "v4.safetensors", [](Config& config) {
    EXPECT_EQ(config.model().type(), "d_fine");
    EXPECT_EQ(config.model().d_fine().decoder_activation(), "silu");
  });
  EXPECT_NE(model, nullptr);
}

// Tests which rows of an official file a model with other numbers of classes or queries starts from.
class StartsOfRfDetr : public testing::Test {
 protected:
  const std::string path_ = SACCADE_SOURCE_DIR "/tests/golden/rf_detr/model.safetensors";
  const std::unique_ptr<WeightsFile> file_ = open_weights(path_);
  const OfficialWeights weights_ = official_weights(*file_);

  // The file has 5 classes and 3 groups of 12 queries.
  std::shared_ptr<Detector> build(int64_t classes, int64_t queries, int64_t groups) const {
    Config config = infer_config(*file_, weights_, Config())->config;
    apply_set(config, fmt::format("model.transformer.queries={}", queries));
    apply_set(config, fmt::format("model.transformer.extra_query_groups={}", groups - 1));
    auto model = build_as<Detector>(model_args(config), classes, criterion_args(config));
    model->initialize(1);
    return model;
  }
  // Expects row `row` of ours to be row `other` of the file's, whose layout is the same.
  void expect_row(Module& model, const std::string& name, int64_t row, int64_t other) const {
    const Tensor theirs = read_weight(*file_, *weights_.find(name)).to(DType::kF32);
    for (const NamedTensor& t : model.named_tensors())
      if (t.name == name) {
        EXPECT_EQ(t.var.value().slice(0, row, row + 1).to_vector<float>(),
                  theirs.slice(0, other, other + 1).to_vector<float>())
            << name << " row " << row;
        return;
      }
    FAIL() << name;
  }
};

TEST_F(StartsOfRfDetr, RowsOfClassesAreRepeatedOrCut) {
  const char* heads[] = {"class_embed.", "transformer.enc_out_class_embed.0.",
                         "transformer.enc_out_class_embed.2."};
  for (const int64_t classes : {3, 12}) {
    auto model = build(classes, 12, 3);
    std::vector<std::string> names;
    for (int64_t i = 0; i < classes; ++i) names.push_back(fmt::format("class {}", i));
    const InitReport report = fill_model(*file_, weights_, *model, {ClassHeads::kTakeIfSame, names});
    for (const std::string head : heads)
      for (int64_t row = 0; row < classes; ++row)
        for (const char* kind : {"weight", "bias"}) expect_row(*model, head + kind, row, row % 5);
    EXPECT_EQ(report.repeated.size(), 8U);  // of the decoder and of three groups
    EXPECT_TRUE(report.reinitialized.empty() && report.missing.empty());
    EXPECT_NE(report.lines().back().find("class heads of other classes, rows repeated or cut: 8 tensors"),
              std::string::npos);
  }
  // Heads that were asked to start anew do so.
  auto model = build(12, 12, 3), fresh = build(12, 12, 3);
  EXPECT_EQ(fill_model(*file_, weights_, *model, {ClassHeads::kReinitialize}).reinitialized.size(), 8U);
  const auto ours = model->named_tensors(), anew = fresh->named_tensors();
  for (size_t i = 0; i < ours.size(); ++i)
    if (ours[i].name.starts_with("class_embed.")) {
      EXPECT_EQ(ours[i].var.value().to_vector<float>(), anew[i].var.value().to_vector<float>());
    }
}

TEST_F(StartsOfRfDetr, QueriesAreCutGroupByGroup) {
  auto model = build(5, 8, 2);
  const InitReport report = fill_model(*file_, weights_, *model);
  for (const char* table : {"query_feat.weight", "refpoint_embed.weight"})
    for (int64_t g = 0; g < 2; ++g)
      for (int64_t q = 0; q < 8; ++q) expect_row(*model, table, g * 8 + q, g * 12 + q);
  EXPECT_EQ(report.cut_queries, (std::vector<std::string>{"query_feat.weight ([36, 16] to [16, 16])",
                                                          "refpoint_embed.weight ([36, 4] to [16, 4])"}));
  EXPECT_EQ(report.skipped.size(), 12U);  // the heads of the third group
}

// More queries or groups than in the file, or as many rows but of other groups.
TEST_F(StartsOfRfDetr, RowsThatTheFileLacksAreAnError) {
  for (const auto& [queries, groups] : {std::pair<int64_t, int64_t>{13, 3}, {8, 4}, {18, 2}, {9, 4}}) {
    auto model = build(5, queries, groups);
    try {
      fill_model(*file_, weights_, *model);
      FAIL() << queries << " queries, " << groups << " groups";
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(
                    fmt::format("(3 groups of queries in the file, {} in the model)", groups)),
                std::string::npos)
          << e.what();
    }
  }
}

}  // namespace
}  // namespace saccade
