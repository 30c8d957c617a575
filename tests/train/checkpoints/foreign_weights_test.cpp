// Tests weights as people have them: wrapped by Lightning, in several files, with a config.json next to them,
// or of models that this program lacks.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/formats/safetensors.h"
#include "data/formats/coco/coco.h"
#include "models/build.h"
#include "models/weights/weight_names.h"
#include "tests/input_error.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/infer_config.h"
#include "train/checkpoints/init_from.h"
#include "train/checkpoints/load_model.h"
#include "train/config/task.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

const std::string kHuggingFaceRtDetr = SACCADE_SOURCE_DIR "/tests/golden/rt_detr/basic.safetensors";
const std::vector<std::string> kSmallRtDetr{"--set", "model.transformer.heads=4", "--set",
                                            "model.transformer.queries=12"};

// Returns the tensors of a file; the class heads get `classes` rows, unless that is 0.
NamedValues tensors_of(const std::string& path, const std::string& prefix, int64_t classes = 0) {
  const SafetensorsReader file(path);
  NamedValues out;
  for (const WeightEntry& e : file.entries()) {
    Tensor value = file.read(e.name);
    if (classes > 0 &&
        (e.name.find("class_embed") != std::string::npos || e.name.find("score_head") != std::string::npos)) {
      Shape shape = e.shape;
      shape[0] = classes;
      value = Tensor::zeros(shape);
    }
    out.emplace_back(prefix + e.name, value);
  }
  return out;
}

struct Converted {
  int status = 0;
  std::string out, err;
};
Converted convert(const std::string& in, const std::string& out, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"convert", in, out});
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Converted r;
  r.status = run_command(more);
  r.out = testing::internal::GetCapturedStdout();
  r.err = testing::internal::GetCapturedStderr();
  return r;
}

TEST(ForeignWeights, OfLightningAreThoseWithoutItsPrefix) {
  TestFolder folder;
  const Converted bare = convert(kHuggingFaceRtDetr, folder / "bare.safetensors", kSmallRtDetr);
  ASSERT_EQ(bare.status, 0) << bare.err;
  for (const char* prefix : {"model.", "model._orig_mod.", "net.model."}) {
    NamedValues tensors = tensors_of(kHuggingFaceRtDetr, prefix);
    tensors.emplace_back("criterion.empty_weight", Tensor::zeros({6}));
    write_safetensors(folder / "wrapped.safetensors", tensors, {});
    const Converted wrapped =
        convert(folder / "wrapped.safetensors", folder / "out.safetensors", kSmallRtDetr);
    ASSERT_EQ(wrapped.status, 0) << wrapped.err;
    EXPECT_NE(wrapped.out.find("Hugging Face RT-DETR names"), std::string::npos) << wrapped.out;
    EXPECT_EQ(read_bytes(folder / "bare.safetensors"), read_bytes(folder / "out.safetensors")) << prefix;
  }
}

// From Lightning's file of a training with averages these are taken if they cover all weights.
TEST(ForeignWeights, OfWeightsAndAveragesItIsSaidWhichAreTaken) {
  TestFolder folder;
  ASSERT_EQ(convert(kHuggingFaceRtDetr, folder / "bare.safetensors", kSmallRtDetr).status, 0);
  for (const auto& [plain, average] :
       {std::pair{"model.", "ema_model.module."}, std::pair{"net.", "ema."}, std::pair{"", "model_ema."}})
    for (const bool is_whole : {true, false}) {
      SCOPED_TRACE(fmt::format("\"{}\" \"{}\" {}", plain, average, is_whole));
      NamedValues weights = tensors_of(kHuggingFaceRtDetr, plain),
                  averages = tensors_of(kHuggingFaceRtDetr, average);
      for (auto& [name, values] : is_whole ? weights : averages)
        values = Tensor::zeros(values.shape(), values.dtype());
      if (!is_whole) averages.pop_back();  // counters, which are not needed, come first
      weights.insert(weights.end(), averages.begin(), averages.end());
      weights.emplace_back("criterion.scale", Tensor::zeros({1}));
      if (!is_whole) weights.pop_back();
      write_safetensors(folder / "both.safetensors", weights, {});
      const Converted r = convert(folder / "both.safetensors", folder / "out.safetensors", kSmallRtDetr);
      ASSERT_EQ(r.status, 0) << r.err;
      EXPECT_NE(r.out.find(is_whole ? "it holds weights and their averages: the averages are used, \""
                                    : "it holds weights and averages of some of them: the averages, \""),
                std::string::npos)
          << r.out;
      EXPECT_EQ(read_bytes(folder / "bare.safetensors"), read_bytes(folder / "out.safetensors"));
    }
}

TEST(ForeignWeights, OfAFolderItIsSaidWhichAreTaken) {
  TestFolder folder;
  ASSERT_EQ(convert(kHuggingFaceRtDetr, folder / "one.safetensors", kSmallRtDetr).status, 0);
  for (const std::string name :
       {"hub/model.safetensors", "run/checkpoints/last.safetensors", "run/checkpoints/best.safetensors"}) {
    fs::create_directories(fs::path(folder / name).parent_path());
    fs::copy_file(kHuggingFaceRtDetr, folder / name);
    const std::string place = folder / name.substr(0, name.find('/'));
    const Converted r = convert(place, folder / "out.safetensors", kSmallRtDetr);
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_NE(r.out.find(place + ": using " + (folder / name)), std::string::npos) << r.out;
    EXPECT_EQ(read_bytes(folder / "one.safetensors"), read_bytes(folder / "out.safetensors"));
  }
  const Converted none = convert(folder.path(), folder / "none.safetensors");
  EXPECT_NE(none.err.find("is a folder, expected"), std::string::npos) << none.err;
}

TEST(ForeignWeights, OfSeveralFilesAreThoseOfOne) {
  TestFolder folder;
  ASSERT_EQ(convert(kHuggingFaceRtDetr, folder / "one.safetensors", kSmallRtDetr).status, 0);
  const NamedValues all = tensors_of(kHuggingFaceRtDetr, "");
  NamedValues parts[2];
  std::string map;
  for (size_t i = 0; i < all.size(); ++i) {
    parts[i % 2].push_back(all[i]);
    map +=
        fmt::format("{}\"{}\": \"model-{:05}-of-00002.safetensors\"", i ? ", " : "", all[i].first, i % 2 + 1);
  }
  for (size_t i = 0; i < 2; ++i)
    write_safetensors(folder / fmt::format("model-{:05}-of-00002.safetensors", i + 1), parts[i], {});
  const std::string index = folder / "model.safetensors.index.json";
  write_bytes(index, "{\"weight_map\": {" + map + "}}");
  EXPECT_EQ(convert(index, folder / "out.safetensors", kSmallRtDetr).status, 0);
  EXPECT_EQ(read_bytes(folder / "one.safetensors"), read_bytes(folder / "out.safetensors"));
  const Converted part = convert(folder / "model-00001-of-00002.safetensors", folder / "p.safetensors");
  EXPECT_EQ(part.status, 2);
  EXPECT_NE(part.err.find("is part 00001 of 00002 of a model"), std::string::npos) << part.err;
}

TEST(ForeignWeights, EightyOutputsAreCocos) {
  TestFolder folder;
  write_safetensors(folder / "in.safetensors", tensors_of(kHuggingFaceRtDetr, "", 80), {});
  const Converted r = convert(folder / "in.safetensors", folder / "out.safetensors", kSmallRtDetr);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("80 outputs: assumed to be COCO's classes"), std::string::npos) << r.out;
  const CheckpointInfo info = read_checkpoint_info(SafetensorsReader(folder / "out.safetensors"));
  ASSERT_EQ(info.class_names.size(), 80u);
  EXPECT_EQ(info.class_names[0], "person");
  EXPECT_EQ(info.category_ids[0], 1);
  EXPECT_EQ(info.class_names[79], "toothbrush");
  EXPECT_EQ(info.category_ids[79], 90);
  for (size_t k = 0; k < 80; ++k)
    EXPECT_EQ(info.class_names[k], coco_class_names()[static_cast<size_t>(info.category_ids[k])]);
}

// What config.json says about the computation is used, or refused if it is not supported.
TEST(ForeignWeights, AreDescribedByTheirConfigJson) {
  TestFolder folder;
  write_safetensors(folder / "model.safetensors", tensors_of(kHuggingFaceRtDetr, ""), {});
  write_bytes(folder / "preprocessor_config.json", "{}");
  const std::string begin =
      "{\"model_type\": \"rt_detr_v2\", \"decoder_attention_heads\": 4, \"num_queries\": 12, ";
  const auto with = [&](const std::string& rest) {
    write_bytes(folder / "config.json", begin + rest + "}");
    return convert(folder / "model.safetensors", folder / "out.safetensors");
  };
  Converted r = with(
      "\"layer_norm_eps\": 1e-05, \"decoder_method\": \"default\", \"eval_idx\": 1, \"decoder_activation_function\": \"silu\", "
      "\"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"c\", \"3\": \"d\", \"4\": \"e\"}, \"initializer_range\": [1, {\"x\": null}]");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("config.json: read for what the weights do not show"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("preprocessor_config.json: not read"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("assumed, since the file does not say: model.transformer"), std::string::npos)
      << r.out;
  const LoadedModel loaded = load_trained_model(folder / "out.safetensors");
  EXPECT_EQ(loaded.config.model().transformer().heads(), 4);
  EXPECT_EQ(loaded.config.model().transformer().queries(), 12);
  EXPECT_EQ(loaded.config.model().rt_detr().eval_layers(), 2);
  EXPECT_EQ(loaded.config.model().rt_detr().decoder_activation(), "silu");
  EXPECT_EQ(loaded.class_names, (std::vector<std::string>{"a", "b", "c", "d", "e"}));
  ASSERT_EQ(with("\"decoder_method\": \"discrete\"").status, 0);
  EXPECT_EQ(load_trained_model(folder / "out.safetensors").config.model().rt_detr().decoder_sampling(),
            "discrete");
  for (const auto& [field, part] : std::vector<std::pair<std::string, std::string>>{
           {"\"decoder_method\": \"nearest\"",
            "config.json: decoder_method is nearest, which is not supported, expected default"},
           {"\"layer_norm_eps\": 0.001", "config.json: layer_norm_eps is 0.001"},
           {"\"activation_function\": \"relu\"", "config.json: activation_function is relu"},
           {"\"normalize_before\": true", "config.json: normalize_before is true"},
           {"\"decoder_activation_function\": \"tanh\"", "decoder_activation"},
           {"\"x\": ", "config.json: line 1"}}) {
    r = with(field);
    EXPECT_EQ(r.status, 2) << field << r.out;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
  // A file of that name that describes no model is somebody else's.
  write_bytes(folder / "config.json", "{\"decoder_method\": \"discrete\"}");
  EXPECT_EQ(convert(folder / "model.safetensors", folder / "out.safetensors", kSmallRtDetr).status, 0);
}

// For a backbone within a detector it is in a separate section.
TEST(ForeignWeights, ABackbonesConfigJsonIsHeldAgainstWhatIsComputed) {
  TestFolder folder;
  std::filesystem::copy_file(SACCADE_SOURCE_DIR "/tests/golden/rf_detr/model.safetensors",
                             folder / "model.safetensors");
  for (const auto& [field, part] : std::vector<std::pair<std::string, std::string>>{
           {"\"hidden_act\": \"relu\"",
            "backbone_config.hidden_act is relu, which is not supported, expected gelu"},
           {"\"layer_norm_eps\": 0.001",
            "layer_norm_eps is 0.001, which is not supported, expected at most"}}) {
    write_bytes(
        folder / "config.json",
        "{\"model_type\": \"rf_detr\", \"layer_norm_eps\": 1e-05, \"backbone_config\": {\"num_attention_heads\": 2, " +
            field + "}}");
    const Converted r = convert(folder / "model.safetensors", folder / "out.safetensors");
    EXPECT_EQ(r.status, 2) << r.out;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
}

TEST(ForeignWeights, OfOtherModelsAreNamed) {
  TestFolder folder;
  const Tensor t = Tensor::zeros({2, 2});
  const std::vector<std::pair<std::string, std::vector<std::string>>> models{
      {"Conditional DETR", {"transformer.decoder.layers.0.sa_qcontent_proj.weight", "class_embed.weight"}},
      {"Conditional DETR",
       {"model.decoder.layers.0.sa_qcontent_proj.weight", "class_labels_classifier.weight"}},
      {"DAB-DETR", {"transformer.decoder.layers.0.sa_qcontent_proj.weight", "refpoint_embed.weight"}},
      {"DAB-DETR",
       {"model.decoder.layers.0.layer.0.self_attn_query_content_proj.weight", "class_embed.weight"}},
      {"YOLOS", {"vit.embeddings.detection_tokens"}},
      {"DEIMv2",
       {"decoder.decoder.layers.0.swish_ffn.w12.weight",
        "decoder.decoder.lqe_layers.0.reg_conf.layers.0.weight"}},
      {"DEIMv2",
       {"model.decoder.layers.0.mlp.gate_proj.weight",
        "model.decoder.lqe_layers.0.reg_conf.layers.0.weight"}},
      {"names of mmdetection", {"backbone.conv1.weight", "bbox_head.fc_cls.weight"}},
      {"names of Ultralytics", {"model.0.conv.weight", "model.1.conv.weight", "model.9.cv1.conv.weight"}},
      {"names of its tensors belong to no model of this program (the first is \"w\")", {"w"}}};
  Config config;
  for (const char* set : {"model.type=classifier", "model.backbone.blocks=[1,1]", "model.backbone.width=8"})
    apply_set(config, set);
  const auto model = build_model(config, 3);
  model->initialize(1);
  for (const auto& [name, tensors] : models) {
    NamedValues values;
    for (const std::string& tensor : tensors) values.emplace_back(tensor, t);
    write_safetensors(folder / "in.safetensors", values, {});
    const Converted r = convert(folder / "in.safetensors", folder / "out.safetensors");
    EXPECT_EQ(r.status, 2) << r.out;
    EXPECT_NE(r.err.find(name), std::string::npos) << name << ": " << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1);
    EXPECT_FALSE(std::filesystem::exists(folder / "out.safetensors"));
    // --init-from reports it if nothing fits.
    const std::string error = input_error([&] { init_from(folder / "in.safetensors", *model); });
    EXPECT_NE(error.find("no tensor fits the model"), std::string::npos) << error;
    if (&name != &models.back().first) {
      EXPECT_NE(error.find(name), std::string::npos) << error;
    }
  }
}

// The sizes of an official DAT classifier follow from its tensors.
TEST(ForeignWeights, ADatIsAClassifier) {
  TestFolder folder;
  Config config;
  for (const char* set : {"model.type=classifier", "model.backbone.type=dat",
                          "model.backbone.arg.dims=[8,16,32,64]", "model.backbone.arg.heads=[1,2,4,8]",
                          "model.backbone.arg.groups=[1,1,2,4]", "model.backbone.arg.blocks=LS LSLS LDLD LD",
                          "model.backbone.arg.window=5", "model.backbone.arg.image_size=160"})
    apply_set(config, set);
  const auto model = build_model(config, 7);
  model->initialize(1);
  NamedValues tensors;
  for (const NamedTensor& t : model->named_tensors()) tensors.emplace_back(t.name, t.var.value());
  tensors.emplace_back("stages.0.attns.1.attn_mask", Tensor::zeros({2, 2}));
  write_safetensors(folder / "dat.safetensors", tensors, {});
  const Converted r = convert(folder / "dat.safetensors", folder / "out.safetensors");
  ASSERT_EQ(r.status, 0) << r.err;
  const LoadedModel loaded = load_trained_model(folder / "out.safetensors");
  EXPECT_EQ(task_name(loaded.config), "classification");
  EXPECT_EQ(loaded.class_names.size(), 7u);
  EXPECT_EQ(loaded.config.data().val_height(), 160);
  std::map<std::string, std::string> args;
  for (const auto& arg : loaded.config.model().backbone().arg()) args[arg.key()] = arg.string();
  EXPECT_EQ(args["blocks"], "LS LSLS LDLD LD");
}

// Spatial reductions have no table of positions that would tell the heads,
// which have 32 channels in all official models.
TEST(ForeignWeights, ADatWithSpatialReductionIsAClassifier) {
  TestFolder folder;
  Config config;
  for (const char* set : {"model.type=classifier", "model.backbone.type=dat",
                          "model.backbone.arg.dims=[32,64,128,256]", "model.backbone.arg.heads=[1,2,4,8]",
                          "model.backbone.arg.groups=[1,1,2,4]", "model.backbone.arg.blocks=PP LP LD LD",
                          "model.backbone.arg.reductions=[8,4,1,1]", "model.backbone.arg.image_size=224"})
    apply_set(config, set);
  const auto model = build_model(config, 7);
  model->initialize(1);
  NamedValues tensors;
  for (const NamedTensor& t : model->named_tensors()) tensors.emplace_back(t.name, t.var.value());
  write_safetensors(folder / "dat.safetensors", tensors, {});
  const Converted r = convert(folder / "dat.safetensors", folder / "out.safetensors");
  ASSERT_EQ(r.status, 0) << r.err;
  const LoadedModel loaded = load_trained_model(folder / "out.safetensors");
  for (const auto& arg : loaded.config.model().backbone().arg()) {
    if (arg.key() == "blocks") {
      EXPECT_EQ(arg.string(), "PP LP LD LD");
    }
    const std::vector<int64_t> ints(arg.ints().begin(), arg.ints().end());
    if (arg.key() == "heads") {
      EXPECT_EQ(ints, (std::vector<int64_t>{1, 2, 4, 8}));
    }
    if (arg.key() == "reductions") {
      EXPECT_EQ(ints, (std::vector<int64_t>{8, 4, 1, 1}));
    }
  }
  EXPECT_EQ(loaded.module->parameter_count(), model->parameter_count());
}

}  // namespace
}  // namespace saccade
