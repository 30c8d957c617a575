// DAT++ (Xia et al. 2023, "DAT++: Spatially Dynamic Vision Transformer with Deformable Attention"):
// neighbourhood and deformable attention in four stages, before each a depthwise convolution (local
// perception unit), feed-forward parts with a depthwise convolution, with the official parameter names.
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "autograd/engine.h"
#include "layers/conv2d.h"
#include "layers/norm.h"
#include "layers/position_encoding.h"
#include "models/backbone.h"
#include "models/common/pooled_classifier.h"
#include "models/common/stages.h"
#include "models/common/vision_block.h"
#include "models/weights/inference.h"

namespace saccade {
namespace {

struct DatPpOptions {
  // One word per stage, one letter per block: N neighbourhood attention, D the attention layer of the section
  // `attention` (deformable attention unless it says otherwise).
  std::vector<std::string> blocks;
  std::vector<int64_t> dims, heads, groups, kernels, strides;  // one per stage
  int64_t window = 7;
  int64_t image_size = 224;  // for which the tables of relative positions are made; any size can be given
  double drop_path = 0;      // of the last block; grows linearly from 0 at the first
  Args attention;
  std::vector<int64_t> outputs;  // stages whose maps forward() returns, each through its own norm
};

constexpr int64_t kDatPpPatch = 4;  // pixels per side of a token of the first stage
constexpr int64_t kDatPpMlpRatio = 4;
constexpr const char* kDatPpAttention = "dmha";
constexpr Conv2dOptions kHalving{.stride = 2, .padding = 1};  // of 3x3 convolutions

// The section of a block's attention layer; deformable attention gets the stage's settings where the
// configuration gives none.
Args layer_section(const DatPpOptions& o, size_t stage, char letter) {
  if (letter == 'N') {
    Args args;
    args.set("type", std::string("neighbourhood"));
    args.set("window", o.window);
    return args;
  }
  Args args = o.attention;
  if (args.get_string("type", kDatPpAttention) != kDatPpAttention) return args;
  const int64_t size = std::max<int64_t>(o.image_size / (kDatPpPatch << stage), 1);
  auto fill_in = [&](const char* key, Args::Value value) {
    if (!args.has(key)) args.set(key, std::move(value));
  };
  fill_in("variant", std::string("dat_pp"));
  fill_in("groups", o.groups[stage]);
  fill_in("kernel", o.kernels[stage]);
  fill_in("stride", o.strides[stage]);
  fill_in("size", std::vector<int64_t>{size, size});
  return args;
}

std::shared_ptr<Conv2d> depthwise(int64_t channels) {
  return std::make_shared<Conv2d>(channels, channels, 3, Conv2dOptions{.padding = 1, .groups = channels});
}

// 1x1 convolution, h + depthwise(h), GELU, 1x1 convolution.
class ConvMlp : public Module {
 public:
  ConvMlp(int64_t dim, int64_t hidden) {
    linear1_ = make_child<Conv2d>("linear1.0", dim, hidden, 1);
    linear2_ = make_child<Conv2d>("linear2.0", hidden, dim, 1);
    dwc_ = child("dwc", depthwise(hidden));
  }
  Var forward(const Var& x) const {
    Var h = linear1_(x);
    return linear2_(gelu(add(h, dwc_(h))));
  }
  std::string type_name() const override { return "ConvMlp"; }

 private:
  Child<Conv2d> linear1_, linear2_, dwc_;
};

class DatPpStage : public Module {
 public:
  // drop_path: the probability of each block
  DatPpStage(const DatPpOptions& o, size_t stage, const std::vector<double>& drop_path) {
    const int64_t dim = o.dims[stage];
    for (size_t j = 0; j < o.blocks[stage].size(); ++j) {
      const Args section = layer_section(o, stage, o.blocks[stage][j]);
      Block block{.wants_points = wants_points(section, kDatPpAttention), .drop_path = drop_path[j]};
      block.perception = child(fmt::format("local_perception_units.{}", j), depthwise(dim));
      block.attn = child(fmt::format("attns.{}", j),
                         make_attention(section, kDatPpAttention, {.dim = dim, .heads = o.heads[stage]}));
      block.mlp = make_child<ConvMlp>(fmt::format("mlps.{}", j), dim, kDatPpMlpRatio * dim);
      block.norm1 = make_child<LayerNorm>(fmt::format("layer_norms.{}.norm", 2 * j), dim);
      block.norm2 = make_child<LayerNorm>(fmt::format("layer_norms.{}.norm", 2 * j + 1), dim);
      blocks_.push_back(std::move(block));
    }
  }

  Var forward(const Var& map) const {
    Var x = map;
    for (const Block& block : blocks_) {
      auto run = [this, &block](const Vars& in) { return forward(block, in[0]); };
      x = recompute() ? recomputed(run, {x}) : run({x});
    }
    return x;
  }
  bool supports_recompute() const override { return true; }
  std::string type_name() const override { return "DatPpStage"; }

 private:
  struct Block {
    Child<Conv2d> perception;
    Child<LayerNorm> norm1, norm2;
    Child<Attention> attn;
    Child<ConvMlp> mlp;
    bool wants_points = false;  // attn attends from points to tokens
    double drop_path = 0;
  };

  Var forward(const Block& block, const Var& map) const {
    const MapSize size{map.dim(1), map.dim(2)};
    Var x = add(map, block.perception(map));
    Var tokens = reshape(block.norm1(x), {x.dim(0), size.cells(), x.dim(3)});
    AttentionInput input{.query = tokens, .key = tokens, .value = tokens, .levels = {size}};
    if (block.wants_points) input.reference_points = reference_points(tokens, size);
    const Var attended = reshape(block.attn(input), x.shape());
    x = add(x, drop_path(attended, block.drop_path, training()));
    return add(x, drop_path(block.mlp(block.norm2(x)), block.drop_path, training()));
  }

  std::vector<Block> blocks_;
};

// A 3x3 convolution that halves the map, then a norm; the names begin with `first`.
class Halving : public Module {
 public:
  Halving(int64_t in, int64_t out, bool bias, int64_t first = 0) {
    conv_ = make_child<Conv2d>(std::to_string(first), in, out, 3, kHalving, Conv2dInit{.bias = bias});
    norm_ = make_child<LayerNorm>(std::to_string(first + 1) + ".norm", out);
  }
  Var forward(const Var& x) const { return norm_(conv_(x)); }
  std::string type_name() const override { return "Halving"; }

 private:
  Child<Conv2d> conv_;
  Child<LayerNorm> norm_;
};

class DatPp : public Backbone {
 public:
  // classifier: the one output, the last stage's, has the classifier's norm
  DatPp(const DatPpOptions& options, bool classifier) : options_(options) {
    std::vector<int64_t> depths;
    for (const std::string& word : options.blocks) depths.push_back(std::ssize(word));
    const auto rates = drop_path_rates(depths, options.drop_path);
    const std::vector<int64_t>& dims = options.dims;
    stem_ = {make_child<Halving>("patch_proj", 3, dims[0] / 2, true),
             make_child<Halving>("patch_proj", dims[0] / 2, dims[0], true, 3)};
    for (size_t i = 0; i < dims.size(); ++i)
      stages_.push_back(make_child<DatPpStage>(fmt::format("stages.{}", i), options, i, rates[i]));
    for (size_t i = 0; i + 1 < dims.size(); ++i)
      down_projs_.push_back(
          make_child<Halving>(fmt::format("down_projs.{}", i), dims[i], dims[i + 1], false));
    for (int64_t o : options.outputs)
      norms_.push_back(
          make_child<LayerNorm>(classifier ? "cls_norm.norm" : fmt::format("norms.{}.norm", o - 1),
                                dims[static_cast<size_t>(o - 1)]));
  }
  std::vector<Var> forward(const Var& images) override {
    std::vector<Var> maps;
    Var x = stem_[1](gelu(stem_[0](images)));
    for (size_t i = 0; i < static_cast<size_t>(options_.outputs.back()); ++i) {
      if (i > 0) x = down_projs_[i - 1](x);
      x = stages_[i](x);
      if (std::ranges::count(options_.outputs, static_cast<int64_t>(i) + 1))
        maps.push_back(norms_[maps.size()](x));
    }
    return maps;
  }
  std::vector<int64_t> channels() const override { return at_stages(options_.dims, options_.outputs); }
  std::string type_name() const override { return "DATpp"; }

 private:
  DatPpOptions options_;
  std::vector<Child<Halving>> stem_, down_projs_;  // down_projs_: from each stage to the next
  std::vector<Child<DatPpStage>> stages_;
  std::vector<Child<LayerNorm>> norms_;  // one per output
};

// All but the outputs; the caller finishes the section. The defaults are DAT-T++'s.
DatPpOptions read_dat_pp(const Args& args) {
  DatPpOptions o;
  std::istringstream words(args.get_string("blocks", "ND NDND NDNDNDNDNDNDNDNDND DD"));
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("ND") != std::string::npos || std::ssize(word) > kMaxBlocks)
      fail_input(
          "{}.blocks: \"{}\", expected one word per stage of the letters N (neighbourhood) and D (deformable)",
          args.path(), shortened(word));
    o.blocks.push_back(word);
  }
  if (o.blocks.empty() || o.blocks.size() > kMaxStages)
    fail_input("{}.blocks: {} stages, expected 1 to {}", args.path(), o.blocks.size(), kMaxStages);
  auto list = [&](const char* key, const std::vector<int64_t>& fallback) {
    return read_per_stage(args, key, fallback, std::ssize(o.blocks));
  };
  o.dims = list("dims", {64, 128, 256, 512});
  o.heads = list("heads", {2, 4, 8, 16});
  o.groups = list("groups", {1, 2, 4, 8});
  o.kernels = list("kernels", {9, 7, 5, 3});
  o.strides = list("strides", {8, 4, 2, 1});
  for (size_t i = 0; i < o.dims.size(); ++i)
    if (o.dims[i] % o.heads[i] != 0)
      fail_input("{}.heads: {} channels do not split into {} heads", args.path(), o.dims[i], o.heads[i]);
  if (o.dims[0] < 2) fail_input("{}.dims: 1 channel, the stem needs two", args.path());
  o.window = args.get_int("window", 7, 1, 63);
  o.image_size = args.get_int("image_size", 224, 1, 1 << 16);
  o.drop_path = args.get_float("drop_path", 0, 0, 0.999);
  o.attention = args.get_section("attention");
  return o;
}

std::shared_ptr<Backbone> build_dat_pp(const Args& args, const std::vector<int64_t>& default_outputs) {
  DatPpOptions options = read_dat_pp(args);
  options.outputs = read_outputs(args, default_outputs, std::ssize(options.blocks));
  args.finish();
  return std::make_shared<DatPp>(options, false);
}

std::shared_ptr<Classifier> build_dat_pp_classifier(const Args& args, int64_t num_classes) {
  DatPpOptions options = read_dat_pp(args);
  args.finish();
  options.outputs = {std::ssize(options.blocks)};
  return std::make_shared<PooledClassifier>("DatPpClassifier", std::make_shared<DatPp>(options, true),
                                            "cls_head", num_classes);
}

// What names and shapes tell of an official classifier. The strides of the offset networks are not in them:
// officially a stage's keys are those of the last stage, and what it takes to get there.
bool infer_dat_pp_classifier(Inference& in) {
  if (!in.has("cls_head.weight") || !in.has("stages.0.local_perception_units.0.weight")) return false;
  const std::string b = "model.backbone.arg.";
  std::vector<std::string> words;
  std::vector<int64_t> dims, heads, groups, kernels;
  int64_t window = 7, image_size = 224;
  for (int64_t s = 0; s < static_cast<int64_t>(kMaxStages); ++s) {
    const std::string stage = fmt::format("stages.{}.", s);
    const int64_t depth = in.count(stage + "local_perception_units.", ".weight");
    if (depth == 0) break;
    dims.push_back(in.size(stage + "local_perception_units.0.weight", 0));
    heads.push_back(1);
    groups.push_back(1);
    kernels.push_back(3);
    std::string word;
    for (int64_t j = 0; j < depth; ++j) {
      const std::string block = fmt::format("{}attns.{}.", stage, j),
                        offsets = block + "conv_offset.0.weight";
      const bool neighbourhood = in.has(block + "rpb");
      const std::string table = block + (neighbourhood ? "rpb" : "rpe_table");
      word += neighbourhood ? 'N' : 'D';
      if (in.has(table)) heads.back() = in.size(table, 0);
      if (neighbourhood) window = (in.size(table, 1) + 1) / 2;
      if (!neighbourhood && in.has(table)) image_size = ((in.size(table, 1) + 1) / 2 * kDatPpPatch) << s;
      if (!in.has(offsets)) continue;
      groups.back() = dims.back() / std::max<int64_t>(in.size(offsets, 0), 1);
      kernels.back() = in.size(offsets, 2);
    }
    words.push_back(word);
  }
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = std::min<int64_t>(2 * strides[i], 64);
  in.set(b + "blocks", fmt::format("{}", fmt::join(words, " ")));
  in.set(b + "dims", dims);
  in.set(b + "heads", heads);
  in.set(b + "groups", groups);
  in.set(b + "kernels", kernels);
  in.set(b + "strides", strides);
  in.assumed.push_back(fmt::format("{}strides: [{}]", b, fmt::join(strides, ", ")));
  in.set(b + "window", window);
  in.set(b + "image_size", image_size);
  infer_classes(in, "cls_head.", {.side = image_size});
  return true;
}

SACCADE_REGISTER_BACKBONE(dat_pp, build_dat_pp, build_dat_pp_classifier, nullptr, false,
                          infer_dat_pp_classifier);

}  // namespace
}  // namespace saccade
