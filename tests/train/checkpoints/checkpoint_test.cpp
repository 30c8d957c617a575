// Tests checkpoints of other models, damaged ones, and --init-from.
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/init_from.h"

#include <gtest/gtest.h>

#include "core/tensor/philox.h"
#include "tests/input_error.h"
#include "tests/test_folder.h"
#include "train/checkpoints/load_model.h"
#include "train/config/config.h"

namespace saccade {
namespace {

class Net : public Module {
 public:
  explicit Net(int64_t classes, const std::string& extra = "") {
    auto normal = [](Tensor& t, Rng& rng) {
      for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.normal());
    };
    conv = param("backbone.0.body.conv1.weight", {2, 3}, normal);
    head = param("class_embed.0.weight", {classes, 2}, normal);
    alias("class_embed.1.weight", head);
    if (!extra.empty()) param(extra, {1}, normal);
  }
  std::string type_name() const override { return "Net"; }
  std::vector<std::string> class_heads() const override { return {"class_embed."}; }
  Var conv, head;
};

TEST(Checkpoint, NamesTheFirstMismatch) {
  TestFolder folder;
  Net net(3);
  net.initialize(1);
  save_checkpoint(folder / "c", net, {});
  SafetensorsReader file(folder / "c");
  auto load = [&](Net& other) { return input_error([&] { load_model(file, other); }); };
  Net same(3), classes(4), more(3, "decoder.bias");
  EXPECT_EQ(load(same), "no error");
  EXPECT_EQ(same.head.value().to_vector<float>(), net.head.value().to_vector<float>());
  EXPECT_NE(load(classes).find("\"class_embed.0.weight\" has shape [3, 2], the model's has [4, 2]"),
            std::string::npos);
  EXPECT_NE(load(more).find("no tensor \"decoder.bias\""), std::string::npos);
  EXPECT_EQ(more.conv.value().to_vector<float>(), std::vector<float>(6, 0));  // nothing was changed
  save_checkpoint(folder / "d", more, {});
  EXPECT_NE(input_error([&] {
              load_model(SafetensorsReader(folder / "d"), same);
            }).find("the model has no tensor \"decoder.bias\""),
            std::string::npos);
}

TEST(Checkpoint, InformationSurvives) {
  TestFolder folder;
  Net net(1);
  CheckpointInfo info;
  info.config = "seed: 3\nmodel { type: \"x\" }\n";
  info.class_names = {"a", "b \"c\"\n", "é"};
  info.category_ids = {-1, 5, int64_t{1} << 60};
  info.seed = ~uint64_t{0};
  info.step = 7;
  info.best_metric = 0.1 + 0.2;
  save_checkpoint(folder / "c", net, info);
  CheckpointInfo back = read_checkpoint_info(SafetensorsReader(folder / "c"));
  EXPECT_EQ(back.config, info.config);
  EXPECT_EQ(back.class_names, info.class_names);
  EXPECT_EQ(back.category_ids, info.category_ids);
  EXPECT_EQ(back.seed, info.seed);
  EXPECT_EQ(back.best_metric, info.best_metric);
  info.step = -1;
  save_checkpoint(folder / "negative", net, info);
  EXPECT_NE(input_error([&] {
              read_checkpoint_info(SafetensorsReader(folder / "negative"));
            }).find("number of averages is -1"),
            std::string::npos);
  write_safetensors(folder / "plain", {{"a", Tensor::zeros({1})}}, {});
  EXPECT_NE(input_error([&] {
              read_checkpoint_info(SafetensorsReader(folder / "plain"));
            }).find("not a checkpoint of saccade"),
            std::string::npos);
  write_safetensors(folder / "bad", {},
                    {{"saccade.format", "1"}, {"saccade.config", ""}, {"saccade.class_names", "[1]"}});
  EXPECT_NE(input_error([&] { read_checkpoint_info(SafetensorsReader(folder / "bad")); }).find("class_names"),
            std::string::npos);
}

TEST(Checkpoint, PrefersAveragesForEvaluation) {
  TestFolder folder;
  Net net(2);
  net.initialize(1);
  Ema ema(net, 0.9);
  auto averaged = net.head.value().to_vector<float>();
  net.head.value().fill(5);
  save_checkpoint(folder / "c", net, {}, nullptr, &ema);
  SafetensorsReader file(folder / "c");
  Net other(2);
  load_model(file, other);
  EXPECT_EQ(other.head.value().to_vector<float>(), averaged);
  load_model(file, other, false);
  EXPECT_EQ(other.head.value().to_vector<float>(), std::vector<float>(4, 5));
}

TEST(InitFrom, ReportsWhatItDid) {
  TestFolder folder;
  Net source(3, "old.bias"), net(3, "new.bias");
  source.initialize(1);
  net.initialize(2);
  save_checkpoint(folder / "c", source, {});
  InitReport report = init_from(folder / "c", net);
  EXPECT_EQ(report.loaded.size(), 3u);
  EXPECT_EQ(report.skipped, std::vector<std::string>{"old.bias"});
  EXPECT_EQ(report.missing, std::vector<std::string>{"new.bias"});
  EXPECT_TRUE(report.reinitialized.empty());
  EXPECT_EQ(net.conv.value().to_vector<float>(), source.conv.value().to_vector<float>());
  EXPECT_EQ(net.head.value().to_vector<float>(), source.head.value().to_vector<float>());
  EXPECT_EQ(report.lines(), (std::vector<std::string>{
                                "official names",
                                "loaded: 3 tensors: backbone.0.body.conv1.weight, class_embed.0.weight, "
                                "class_embed.1.weight",
                                "only in the file, skipped: 1 tensor: old.bias",
                                "not in the file, initialised: 1 tensor: new.bias"}));
  // A bare backbone, in half precision.
  Tensor conv = Tensor::full({2, 3}, 0.5, DType::kBF16);
  write_safetensors(folder / "resnet", {{"conv1.weight", conv}, {"fc.weight", Tensor::zeros({1})}}, {});
  report = init_from(folder / "resnet", net);
  EXPECT_EQ(report.loaded.size(), 1u);
  EXPECT_EQ(report.skipped, std::vector<std::string>{"fc.weight"});
  EXPECT_EQ(net.conv.value().to_vector<float>(), std::vector<float>(6, 0.5f));
  write_safetensors(folder / "other", {{"x", conv}}, {});
  EXPECT_NE(input_error([&] { init_from(folder / "other", net); }).find("no tensor fits the model"),
            std::string::npos);
}

TEST(InitFrom, HeadsOfOtherClassesStartAnewOnRequest) {
  TestFolder folder;
  Net source(3), net(4), same(3);
  source.initialize(1);
  save_checkpoint(folder / "c", source, {});
  for (Net* n : {&net, &same}) {
    n->initialize(2);
    auto head = n->head.value().to_vector<float>(), conv = n->conv.value().to_vector<float>();
    if (n == &net) {
      std::string error = input_error([&] { init_from(folder / "c", net); });
      EXPECT_NE(
          error.find("\"class_embed.0.weight\" is F32 [3, 2], the model's \"class_embed.0.weight\" has shape "
                     "[4, 2]; --reinit-heads"),
          std::string::npos)
          << error;
      EXPECT_EQ(net.conv.value().to_vector<float>(), conv);  // nothing was changed
    }
    InitReport report = init_from(folder / "c", *n, {ClassHeads::kReinitialize});
    EXPECT_EQ(report.reinitialized,
              (std::vector<std::string>{"class_embed.0.weight", "class_embed.1.weight"}));
    EXPECT_TRUE(report.missing.empty());
    EXPECT_EQ(n->head.value().to_vector<float>(), head);
    EXPECT_EQ(n->conv.value().to_vector<float>(), source.conv.value().to_vector<float>());
    EXPECT_EQ(report.lines().back(),
              "class heads, re-initialised: 2 tensors: class_embed.0.weight, class_embed.1.weight");
  }
  // Other tensors whose shapes differ are never left out silently.
  write_safetensors(folder / "d",
                    {{"backbone.0.body.conv1.weight", Tensor::zeros({2, 4})},
                     {"class_embed.0.weight", Tensor::zeros({4, 2})}},
                    {});
  for (ClassHeads heads : {ClassHeads::kTake, ClassHeads::kReinitialize})
    EXPECT_NE(input_error([&] {
                init_from(folder / "d", net, {heads});
              }).find("expected weights of the same model"),
              std::string::npos);
}

TEST(InitFrom, HeadsTakeTheRowsOfClassesOfTheSameNames) {
  TestFolder folder;
  Net source(3), net(4);
  source.initialize(1);
  net.initialize(2);
  CheckpointInfo info;
  info.class_names = {"cat", "dog", "bus"};
  info.category_ids = {1, 2, 3};
  save_checkpoint(folder / "c", source, info);
  const auto theirs = source.head.value().to_vector<float>(), before = net.head.value().to_vector<float>();
  const InitReport report =
      init_from(folder / "c", net, {ClassHeads::kTakeIfSame, {"bus", "Cat", "tree", "dog"}});
  const auto after = net.head.value().to_vector<float>();
  const int rows[] = {2, 0, -1, 1};
  for (size_t row = 0; row < 4; ++row)
    for (size_t c = 0; c < 2; ++c)
      EXPECT_EQ(after[2 * row + c],
                rows[row] < 0 ? before[2 * row + c] : theirs[2 * static_cast<size_t>(rows[row]) + c]);
  EXPECT_EQ(report.reinitialized.size(), 2U);
  EXPECT_EQ(report.notes.back(),
            "their rows for classes with the same name in the file are copied: 3 of 4 (bus, Cat, dog)");
}

TEST(InitFrom, ResizesPositionsOfOtherImages) {
  struct Row {
    const char *backbone, *before, *after, *resized;
  };
  const Row rows[] = {
      {R"(type: "vit" arg { key: "patch" int: 8 } arg { key: "dim" int: 8 } arg { key: "depth" int: 1 } arg { key: "heads" int: 2 })",
       R"(arg { key: "image_size" int: 32 })", R"(arg { key: "image_size" int: 48 })",
       "1 tensor: pos_embed ([1, 17, 8] to [1, 37, 8])"},
      {R"(type: "swin" arg { key: "embed_dim" int: 8 } arg { key: "depths" ints: [1, 1] } arg { key: "heads" ints: [1, 2] })",
       R"(arg { key: "window" int: 3 })", R"(arg { key: "window" int: 4 })",
       "2 tensors: layers.0.blocks.0.attn.relative_position_bias_table ([25, 1] to [49, 1]), "
       "layers.1.blocks.0.attn.relative_position_bias_table ([25, 2] to [49, 2])"},
      {R"(type: "dat_pp" arg { key: "blocks" string: "ND" } arg { key: "dims" ints: [8] } arg { key: "heads" ints: [2] })",
       R"(arg { key: "image_size" int: 16 })", R"(arg { key: "image_size" int: 24 })",
       "1 tensor: stages.0.attns.1.rpe_table ([2, 7, 7] to [2, 11, 11])"},
  };
  for (const Row& row : rows) {
    TestFolder folder;
    auto build = [&](const char* size) {
      const Config config = parse_config(
          fmt::format(R"(model {{ type: "classifier" backbone {{ {} {} }} }})", row.backbone, size), "test");
      return build_model(config, 3);
    };
    auto source = build(row.before), model = build(row.after);
    source->initialize(1);
    model->initialize(2);
    save_checkpoint(folder / "c", *source, {});
    const InitReport report = init_from(folder / "c", *model);
    EXPECT_EQ(report.lines().back(), std::string("positions of another image size, resized: ") + row.resized);
    EXPECT_EQ(report.loaded.size(), source->named_tensors().size());
    const auto before = source->named_tensors(), after = model->named_tensors();
    for (size_t i = 0; i < after.size(); ++i) {
      const Tensor old = before[i].var.value();
      const bool same = old.shape() == after[i].var.shape();
      const Tensor want = same ? old : after[i].resize(old, after[i].var.shape());
      EXPECT_EQ(after[i].var.value().to_vector<float>(), want.to_vector<float>()) << after[i].name;
    }
  }
}

TEST(InitFrom, AnyNameOfASharedTensorFillsIt) {
  TestFolder folder;
  Net net(3);
  Tensor conv = Tensor::full({2, 3}, 1), head = Tensor::full({3, 2}, 7), other = Tensor::full({3, 2}, 8);
  const std::string backbone = "backbone.0.body.conv1.weight";
  for (const char* name : {"class_embed.0.weight", "class_embed.1.weight"}) {
    net.initialize(1);
    write_safetensors(folder / "c", {{backbone, conv}, {name, head}}, {});
    EXPECT_EQ(init_from(folder / "c", net).loaded.size(), 3u);
    EXPECT_EQ(net.head.value().to_vector<float>(), std::vector<float>(6, 7));
  }
  write_safetensors(folder / "d",
                    {{backbone, conv}, {"class_embed.0.weight", head}, {"class_embed.1.weight", other}}, {});
  EXPECT_NE(input_error([&] { init_from(folder / "d", net); }).find("differ, but the model shares them"),
            std::string::npos);
}

}  // namespace
}  // namespace saccade
