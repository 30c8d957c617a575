// DAT (Xia et al. 2022, "Vision Transformer with Deformable Attention"; the CVPR 2022 models T, S and B):
// windows, shifted windows and deformable attention in four stages, with the official parameter names.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "layers/conv2d.h"
#include "layers/norm.h"
#include "models/backbone.h"
#include "models/common/pooled_classifier.h"
#include "models/common/stages.h"
#include "models/common/vision_block.h"
#include "models/weights/inference.h"

namespace saccade {
namespace {

struct DatOptions {
  std::vector<int64_t> dims, heads;  // one per stage; the stem gives dims[0]
  // One word per stage, one letter per block: L window attention, S shifted windows, P spatial reduction (row
  // P of the paper's Table 6), D the attention layer of the section `attention` (deformable attention unless
  // it says otherwise).
  std::vector<std::string> blocks;
  std::vector<int64_t> groups, kernels, strides;  // of deformable attention, one per stage
  std::vector<int64_t> reductions;                // of spatial reduction, one per stage
  int64_t window = 7;
  int64_t image_size = 224;  // for which the tables of relative positions are made; any size can be given
  double drop_path = 0;      // of the last block; grows linearly from 0 at the first
  Args attention;
  // Stages whose maps forward() returns, each through its own norm.
  std::vector<int64_t> outputs;
};

constexpr int64_t kPatch = 4;  // pixels per side of a token of the first stage
constexpr int64_t kMlpRatio = 4;
constexpr int64_t kDatHeadChannels = 32;  // in all official models
constexpr const char* kDeformable = "dmha";

// The section of a block's attention layer. Shifted windows are shifted by half their size, rounded up (Swin
// rounds down); deformable attention gets the stage's settings where the configuration gives none.
Args attention_section(const DatOptions& o, size_t stage, char letter) {
  if (letter == 'P') {
    Args args;
    args.set("type", std::string("spatial_reduction"));
    args.set("variant", std::string("dat"));
    args.set("reduction", o.reductions[stage]);
    return args;
  }
  if (letter != 'D') {
    Args args;
    args.set("type", std::string("window"));
    args.set("variant", std::string("dat"));
    args.set("window", o.window);
    args.set("shift", letter == 'S' ? (o.window + 1) / 2 : 0);
    return args;
  }
  Args args = o.attention;
  if (args.get_string("type", kDeformable) == kDeformable) {
    int64_t size = std::max<int64_t>(o.image_size / (kPatch << stage), 1);
    auto fill_in = [&](const char* key, Args::Value value) {
      if (!args.has(key)) args.set(key, std::move(value));
    };
    fill_in("groups", o.groups[stage]);
    fill_in("kernel", o.kernels[stage]);
    fill_in("stride", o.strides[stage]);
    fill_in("size", std::vector<int64_t>{size, size});
  }
  return args;
}

// A convolution whose windows do not overlap, then a norm: `0` and `1.norm` of the official names.
class Downsampling : public Module {
 public:
  Downsampling(int64_t in, int64_t out, int64_t stride, bool bias) {
    conv_ =
        make_child<Conv2d>("0", in, out, stride, Conv2dOptions{.stride = stride}, Conv2dInit{.bias = bias});
    norm_ = make_child<LayerNorm>("1.norm", out);
  }
  Var forward(const Var& x) const { return norm_(conv_(x)); }
  std::string type_name() const override { return "Downsampling"; }

 private:
  Child<Conv2d> conv_;
  Child<LayerNorm> norm_;
};

class DatStage : public Module {
 public:
  // drop_path: the probability of each block
  DatStage(const DatOptions& o, size_t stage, const std::vector<double>& drop_path) {
    int64_t dim = o.dims[stage];
    for (size_t j = 0; j < o.blocks[stage].size(); ++j) {
      Args section = attention_section(o, stage, o.blocks[stage][j]);
      PreNormBlock block{.wants_points = wants_points(section, kDeformable), .drop_path = drop_path[j]};
      block.attn = child(fmt::format("attns.{}", j),
                         make_attention(section, kDeformable, {.dim = dim, .heads = o.heads[stage]}));
      block.mlp = make_child<Mlp>(
          fmt::format("mlps.{}", j), std::vector{dim, kMlpRatio * dim, dim},
          MlpOptions{.names = {"chunk.linear1", "chunk.linear2"}, .activation = Activation::kGelu});
      block.norm1 = make_child<LayerNorm>(fmt::format("layer_norms.{}.norm", 2 * j), dim);
      block.norm2 = make_child<LayerNorm>(fmt::format("layer_norms.{}.norm", 2 * j + 1), dim);
      blocks_.push_back(std::move(block));
    }
  }

  Var forward(const Var& map) {
    MapSize size{map.dim(1), map.dim(2)};
    Var x = reshape(map, {map.dim(0), size.cells(), map.dim(3)});
    for (const PreNormBlock& block : blocks_) x = block.forward(*this, x, {size});
    return reshape(x, map.shape());
  }
  bool supports_recompute() const override { return true; }
  std::string type_name() const override { return "DatStage"; }

 private:
  std::vector<PreNormBlock> blocks_;
};

class Dat : public Backbone {
 public:
  // classifier: the one output, the last stage's, has the classifier's norm
  Dat(const DatOptions& options, bool classifier) : options_(options) {
    size_t stages = options.dims.size();
    std::vector<int64_t> depths;
    for (const std::string& word : options.blocks) depths.push_back(std::ssize(word));
    auto rates = drop_path_rates(depths, options.drop_path);
    patch_embed_ = make_child<Downsampling>("patch_proj", 3, options.dims[0], kPatch, true);
    for (size_t i = 0; i < stages; ++i)
      stages_.push_back(make_child<DatStage>(fmt::format("stages.{}", i), options, i, rates[i]));
    for (size_t i = 0; i + 1 < stages; ++i)
      downsampling_.push_back(make_child<Downsampling>(fmt::format("down_projs.{}", i), options.dims[i],
                                                       options.dims[i + 1], 2, false));
    for (int64_t o : options.outputs)
      output_norms_.push_back(
          make_child<LayerNorm>(classifier ? "cls_norm.norm" : fmt::format("norms.{}.norm", o - 1),
                                options.dims[static_cast<size_t>(o - 1)]));
  }
  std::vector<Var> forward(const Var& images) override {
    std::vector<Var> maps;
    Var x = patch_embed_(images);
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (i > 0) x = downsampling_[i - 1](x);
      x = stages_[i](x);
      if (std::ranges::count(options_.outputs, static_cast<int64_t>(i) + 1))
        maps.push_back(output_norms_[maps.size()](x));
    }
    return maps;
  }
  std::vector<int64_t> channels() const override { return at_stages(options_.dims, options_.outputs); }
  std::string type_name() const override { return "DAT"; }

 private:
  DatOptions options_;
  Child<Downsampling> patch_embed_;
  std::vector<Child<DatStage>> stages_;
  std::vector<Child<Downsampling>> downsampling_;  // from each stage to the next
  std::vector<Child<LayerNorm>> output_norms_;
};

// All but the outputs; the caller finishes the section. The defaults are DAT-T's.
DatOptions read_dat(const Args& args) {
  DatOptions o;
  std::istringstream words(args.get_string("blocks", "LS LS LDLDLD LD"));
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("LSPD") != std::string::npos || std::ssize(word) > kMaxBlocks)
      fail_input(
          "{}.blocks: \"{}\", expected one word per stage of the letters L (window), S (shifted window), "
          "P (spatial reduction) and D (deformable)",
          args.path(), shortened(word));
    o.blocks.push_back(word);
  }
  if (o.blocks.empty() || o.blocks.size() > kMaxStages)
    fail_input("{}.blocks: {} stages, expected 1 to {}", args.path(), o.blocks.size(), kMaxStages);
  auto list = [&](const char* key, const std::vector<int64_t>& fallback, int64_t high = 65536) {
    return read_per_stage(args, key, fallback, std::ssize(o.blocks), high);
  };
  o.dims = list("dims", {96, 192, 384, 768});
  o.heads = list("heads", {3, 6, 12, 24});
  o.groups = list("groups", {1, 1, 3, 6});
  o.kernels = list("kernels", {9, 7, 5, 3});
  o.strides = list("strides", {1, 1, 1, 1});
  o.reductions = list("reductions", {8, 4, 2, 1}, kMaxReduction);
  for (size_t i = 0; i < o.dims.size(); ++i)
    if (o.dims[i] % o.heads[i] != 0)
      fail_input("{}.heads: {} channels do not split into {} heads", args.path(), o.dims[i], o.heads[i]);
  o.window = args.get_int("window", 7, 2, 64);
  o.image_size = args.get_int("image_size", 224, 1, 1 << 16);
  o.drop_path = args.get_float("drop_path", 0, 0, 0.999);
  o.attention = args.get_section("attention");
  return o;
}

std::shared_ptr<Backbone> build_dat(const Args& args, const std::vector<int64_t>& default_outputs) {
  DatOptions options = read_dat(args);
  options.outputs = read_outputs(args, default_outputs, std::ssize(options.blocks));
  args.finish();
  return std::make_shared<Dat>(options, false);
}

std::shared_ptr<Classifier> build_dat_classifier(const Args& args, int64_t num_classes) {
  DatOptions options = read_dat(args);
  args.finish();
  options.outputs = {std::ssize(options.blocks)};
  return std::make_shared<PooledClassifier>("DatClassifier", std::make_shared<Dat>(options, true), "cls_head",
                                            num_classes);
}

// What names and shapes tell of an official classifier. A window that is shifted has no tensors of its own:
// officially every second one is.
bool infer_dat_classifier(Inference& in) {
  if (!in.has("cls_head.weight") || !in.has("patch_proj.0.weight") ||
      !in.has("stages.0.mlps.0.chunk.linear1.weight"))
    return false;
  const std::string b = "model.backbone.arg.";
  std::vector<std::string> words;
  std::vector<int64_t> dims, heads, groups, kernels{9, 7, 5, 3}, reductions;
  int64_t window = 7, image_size = 224;
  for (int64_t s = 0; s < static_cast<int64_t>(kMaxStages); ++s) {
    const std::string stage = fmt::format("stages.{}.", s);
    const int64_t depth = in.count(stage + "mlps.", ".chunk.linear1.weight");
    if (depth == 0) break;
    dims.push_back(in.size(s == 0 ? "patch_proj.0.weight" : fmt::format("down_projs.{}.0.weight", s - 1), 0));
    groups.push_back(1);
    heads.push_back(0);
    reductions.push_back(1);
    kernels.resize(std::max<size_t>(kernels.size(), dims.size()), 3);
    std::string word;
    for (int64_t j = 0; j < depth; ++j) {
      const std::string block = fmt::format("{}attns.{}.", stage, j),
                        offsets = block + "conv_offset.0.weight";
      const std::string table = block + "rpe_table", window_table = block + "relative_position_bias_table";
      const std::string reduction = block + "proj_ds.0.weight";
      const bool is_pyramid = in.has(block + "kv.weight");
      word += is_pyramid ? 'P' : in.has(offsets) ? 'D' : j % 2 == 1 ? 'S' : 'L';
      if (is_pyramid) {
        if (in.has(reduction)) reductions.back() = in.size(reduction, 2);
      } else if (in.has(offsets)) {
        groups.back() = dims.back() / std::max<int64_t>(in.size(offsets, 0), 1);
        kernels[static_cast<size_t>(s)] = in.size(offsets, 2);
        if (in.has(table)) image_size = ((in.size(table, 1) + 1) / 2 * kPatch) << s;
      } else if (in.has(window_table)) {
        heads.back() = in.size(window_table, 1);
        window = (std::llround(std::sqrt(static_cast<double>(in.size(window_table, 0)))) + 1) / 2;
      }
      if (in.has(table)) heads.back() = in.size(table, 0);
    }
    words.push_back(word);
    if (heads.back() > 0) continue;
    // No table tells them.
    heads.back() = std::max<int64_t>(1, dims.back() / kDatHeadChannels);
    in.assumed.push_back(fmt::format("{}heads: {} in stage {}", b, heads.back(), s + 1));
  }
  kernels.resize(dims.size());
  in.set(b + "blocks", fmt::format("{}", fmt::join(words, " ")));
  in.set(b + "dims", dims);
  in.set(b + "heads", heads);
  in.set(b + "groups", groups);
  in.set(b + "kernels", kernels);
  if (std::ranges::any_of(words, [](const std::string& w) { return w.find('P') != std::string::npos; }))
    in.set(b + "reductions", reductions);
  in.set(b + "window", window);
  in.set(b + "image_size", image_size);
  infer_classes(in, "cls_head.", {.side = image_size});
  return true;
}

SACCADE_REGISTER_BACKBONE(dat, build_dat, build_dat_classifier, nullptr, false, infer_dat_classifier);

}  // namespace
}  // namespace saccade
