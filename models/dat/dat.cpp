#include "models/dat/dat.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "layers/module_scope.h"
#include "models/common/stages.h"
#include "models/common/vision_block.h"

namespace saccade {
namespace {

constexpr int64_t kPatch = 4;  // pixels per side of a token of the first stage
constexpr int64_t kMlpRatio = 4;
constexpr const char* kDeformable = "dmha";

// The section of a block's attention layer. Shifted windows are shifted by half their size, rounded up (Swin
// rounds down); deformable attention gets the stage's settings where the configuration gives none.
Args attention_section(const DatOptions& o, size_t stage, char letter) {
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

}  // namespace

// A convolution whose windows do not overlap, then a norm: `0` and `1.norm` of the official names.
class Dat::Downsampling : public Module {
 public:
  Downsampling(int64_t in, int64_t out, int64_t stride, bool bias) {
    conv_ =
        make_child<Conv2d>("0", in, out, stride, Conv2dOptions{.stride = stride}, Conv2dInit{.bias = bias});
    norm_ = make_child<LayerNorm>("1.norm", out);
  }
  Var forward(const Var& x) const { return norm_->forward(conv_->forward(x)); }
  std::string type_name() const override { return "Downsampling"; }

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<LayerNorm> norm_;
};

class Dat::Stage : public Module {
 public:
  // drop_path: the probability of each block
  Stage(const DatOptions& o, size_t stage, const std::vector<double>& drop_path) {
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
    ModuleScope scope(*this);
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

Dat::Dat(const DatOptions& options) : options_(options) {
  size_t stages = options.dims.size();
  std::vector<int64_t> depths;
  for (const std::string& word : options.blocks) depths.push_back(std::ssize(word));
  auto rates = drop_path_rates(depths, options.drop_path);
  patch_embed_ = make_child<Downsampling>("patch_proj", 3, options.dims[0], kPatch, true);
  for (size_t i = 0; i < stages; ++i)
    stages_.push_back(make_child<Stage>(fmt::format("stages.{}", i), options, i, rates[i]));
  for (size_t i = 0; i + 1 < stages; ++i)
    downsampling_.push_back(make_child<Downsampling>(fmt::format("down_projs.{}", i), options.dims[i],
                                                     options.dims[i + 1], 2, false));
  for (int64_t o : options.outputs)
    output_norms_.push_back(
        make_child<LayerNorm>(fmt::format("norms.{}.norm", o - 1), options.dims[static_cast<size_t>(o - 1)]));
}

template <class F>
Var Dat::run(const Var& images, const F& visit) {
  ModuleScope scope(*this);
  Var x = patch_embed_->forward(images);
  for (size_t i = 0; i < stages_.size(); ++i) {
    x = stages_[i]->forward(x);
    visit(static_cast<int64_t>(i + 1), x);
    if (i + 1 < stages_.size()) x = downsampling_[i]->forward(x);
  }
  return x;
}

Var Dat::features(const Var& images) {
  return run(images, [](int64_t, const Var&) {});
}

std::vector<Var> Dat::forward(const Var& images) {
  std::vector<Var> maps;
  run(images, [&](int64_t stage, const Var& x) {
    if (std::ranges::count(options_.outputs, stage)) maps.push_back(output_norms_[maps.size()]->forward(x));
  });
  return maps;
}

std::vector<int64_t> Dat::channels() const { return at_stages(options_.dims, options_.outputs); }

DatClassifier::DatClassifier(const DatOptions& options, int64_t num_classes) : num_classes_(num_classes) {
  backbone_ = make_child<Dat>("", options);
  norm_ = make_child<LayerNorm>("cls_norm.norm", backbone_->dim());
  head_ = make_child<Linear>("cls_head", backbone_->dim(), num_classes);
}

Var DatClassifier::forward(const Var& images) {
  ModuleScope scope(*this);
  return head_->forward(mean(norm_->forward(backbone_->features(images)), std::vector<int>{1, 2}));
}

DatOptions DatOptions::read(const Args& args) {
  DatOptions o;
  std::istringstream words(args.get_string("blocks", "LS LS LDLDLD LD"));
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("LSD") != std::string::npos)
      fail_input(
          "{}.blocks: \"{}\", expected one word per stage of the letters L (window), S (shifted window) and "
          "D (deformable)",
          args.path(), word);
    o.blocks.push_back(word);
  }
  if (o.blocks.empty()) fail_input("{}.blocks: expected at least one stage", args.path());
  auto stages = static_cast<int64_t>(o.blocks.size());
  auto list = [&](const char* key, std::vector<int64_t> fallback) {
    fallback.resize(std::min(fallback.size(), o.blocks.size()));
    std::vector<int64_t> v = args.get_ints(key, fallback);
    if (static_cast<int64_t>(v.size()) != stages || *std::min_element(v.begin(), v.end()) < 1)
      fail_input("{}.{}: [{}], expected {} positive numbers, one per stage", args.path(), key,
                 fmt::join(v, ", "), stages);
    return v;
  };
  o.dims = list("dims", {96, 192, 384, 768});
  o.heads = list("heads", {3, 6, 12, 24});
  o.groups = list("groups", {1, 1, 3, 6});
  o.kernels = list("kernels", {9, 7, 5, 3});
  o.strides = list("strides", {1, 1, 1, 1});
  for (size_t i = 0; i < o.dims.size(); ++i)
    if (o.dims[i] % o.heads[i] != 0)
      fail_input("{}.heads: {} channels do not split into {} heads", args.path(), o.dims[i], o.heads[i]);
  o.window = args.get_int("window", 7, 2, 64);
  o.image_size = args.get_int("image_size", 224, 1, 1 << 16);
  o.drop_path = args.get_float("drop_path", 0, 0, 0.999);
  o.attention = args.get_section("attention");
  return o;
}

namespace {

std::shared_ptr<Backbone> build_dat(const Args& args, const std::vector<int64_t>& default_outputs) {
  DatOptions options = DatOptions::read(args);
  options.outputs = read_outputs(args, default_outputs, std::ssize(options.blocks));
  args.finish();
  return std::make_shared<Dat>(options);
}

std::shared_ptr<Classifier> build_dat_classifier(const Args& args, int64_t num_classes) {
  DatOptions options = DatOptions::read(args);
  args.finish();
  return std::make_shared<DatClassifier>(options, num_classes);
}

SACCADE_REGISTER_BACKBONE(dat, build_dat, build_dat_classifier);

}  // namespace
}  // namespace saccade
