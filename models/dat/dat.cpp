#include "models/dat/dat.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "autograd/engine.h"
#include "layers/cell_centres.h"
#include "layers/module_scope.h"
#include "models/common/vision_block.h"

namespace saccade {
namespace {

constexpr int64_t kPatch = 4;  // pixels a side of a token of the first stage
constexpr int64_t kMlpRatio = 4;
constexpr double kTableStd = 0.01;  // Swin's is 0.02

// Attention inside the windows of a map (L), or inside windows shifted by half their size, rounded up (S;
// Swin rounds down). Where windows do not divide the map it is filled up with zeros before the projection, on
// the right and below, as the official detection code does.
class LocalAttention final : public Attention {
 public:
  LocalAttention(int64_t dim, int64_t heads, int64_t window, bool shifted)
      : options_{.heads = heads, .window = window, .shift = shifted ? (window + 1) / 2 : 0} {
    proj_qkv_ = make_child<Linear>("proj_qkv", dim, 3 * dim);
    proj_out_ = make_child<Linear>("proj_out", dim, dim);
    int64_t side = 2 * window - 1;
    table_ = param("relative_position_bias_table", {side * side, heads}, init::truncated_normal(kTableStd));
  }
  Var forward(const AttentionInput& input) override {
    ModuleScope scope(*this);
    int64_t N = input.query.dim(0), C = input.query.dim(2);
    MapSize map = input.levels[0];
    Var qkv = reshape(proj_qkv_->forward(input.query), {N, map.height, map.width, 3 * C});
    Var y = window_attention(qkv, table_, proj_qkv_->bias(), {}, options_);
    return proj_out_->forward(reshape(y, input.query.shape()));
  }
  std::string type_name() const override {
    return options_.shift ? "ShiftWindowAttention" : "LocalAttention";
  }

 private:
  WindowAttentionOptions options_;
  std::shared_ptr<Linear> proj_qkv_, proj_out_;
  Var table_;
};

class DatMlp : public Module {
 public:
  explicit DatMlp(int64_t dim) {
    linear1_ = make_child<Linear>("chunk.linear1", dim, kMlpRatio * dim);
    linear2_ = make_child<Linear>("chunk.linear2", kMlpRatio * dim, dim);
  }
  Var forward(const Var& x) const {
    ModuleScope scope(*this);
    return linear2_->forward(linear1_->forward(x, Activation::kGelu));
  }
  std::string type_name() const override { return "MLP"; }

 private:
  std::shared_ptr<Linear> linear1_, linear2_;
};

// The layer of a D block. Deformable attention gets the stage's figures where the section gives none.
std::shared_ptr<Attention> make_deformable(const DatOptions& o, size_t stage) {
  Args args = o.attention;
  AttentionShape shape{.dim = o.dims[stage], .heads = o.heads[stage], .levels = 1, .points = 4, .dropout = 0};
  if (args.get_string("type", "dmha") == "dmha") {
    int64_t size = std::max<int64_t>(o.image_size / (kPatch << stage), 1);
    auto fill_in = [&](const char* key, Args::Value value) {
      if (!args.has(key)) args.set(key, std::move(value));
    };
    fill_in("groups", o.groups[stage]);
    fill_in("kernel", o.kernels[stage]);
    fill_in("stride", o.strides[stage]);
    fill_in("size", std::vector<int64_t>{size, size});
  }
  return make_attention(args, "dmha", shape);
}

}  // namespace

class Dat::Stage : public Module {
 public:
  // drop_path: one probability a block.
  Stage(const DatOptions& o, size_t stage, const std::vector<double>& drop_path) : drop_path_(drop_path) {
    int64_t dim = o.dims[stage], heads = o.heads[stage];
    for (size_t j = 0; j < o.blocks[stage].size(); ++j) {
      char letter = o.blocks[stage][j];
      attns_.push_back(child(fmt::format("attns.{}", j),
                             letter == 'D'
                                 ? make_deformable(o, stage)
                                 : std::make_shared<LocalAttention>(dim, heads, o.window, letter == 'S')));
      mlps_.push_back(make_child<DatMlp>(fmt::format("mlps.{}", j), dim));
      for (size_t k : {2 * j, 2 * j + 1})
        norms_.push_back(make_child<LayerNorm>(fmt::format("layer_norms.{}.norm", k), dim));
    }
  }

  Var forward(const Var& map) {
    ModuleScope scope(*this);
    MapSize shape{map.dim(1), map.dim(2)};
    Var x = reshape(map, {map.dim(0), shape.cells(), map.dim(3)});
    for (size_t j = 0; j < attns_.size(); ++j) {
      auto body = [this, j, shape](const Vars& in) { return block(j, in[0], shape); };
      x = recompute() ? recomputed(body, {x}) : body({x});
    }
    return reshape(x, map.shape());
  }
  bool supports_recompute() const override { return true; }
  std::string type_name() const override { return "DatStage"; }

 private:
  Var block(size_t j, const Var& x, MapSize map) {
    AttentionInput in;
    in.query = in.key = in.value = norms_[2 * j]->forward(x);
    in.reference_points = reference_points(x, map);
    in.levels = {map};
    Var y = add(x, drop_path(attns_[j]->forward(in), drop_path_[j], training()));
    return add(y, drop_path(mlps_[j]->forward(norms_[2 * j + 1]->forward(y)), drop_path_[j], training()));
  }

  std::vector<double> drop_path_;
  std::vector<std::shared_ptr<Attention>> attns_;
  std::vector<std::shared_ptr<DatMlp>> mlps_;
  std::vector<std::shared_ptr<LayerNorm>> norms_;  // two a block
};

Dat::Dat(const DatOptions& options) : options_(options) {
  size_t stages = options.dims.size();
  int64_t depth = 0;
  for (const std::string& word : options.blocks) depth += std::ssize(word);
  const std::vector<double> rates = drop_path_rates(depth, options.drop_path);
  patch_conv_ =
      make_child<Conv2d>("patch_proj.0", 3, options.dims[0], kPatch, Conv2dOptions{.stride = kPatch});
  patch_norm_ = make_child<LayerNorm>("patch_proj.1.norm", options.dims[0]);
  auto next = rates.begin();
  for (size_t i = 0; i < stages; ++i) {
    std::vector<double> own(next, next + std::ssize(options.blocks[i]));
    stages_.push_back(make_child<Stage>(fmt::format("stages.{}", i), options, i, own));
    next += std::ssize(own);
  }
  for (size_t i = 0; i + 1 < stages; ++i) {
    std::string name = fmt::format("down_projs.{}", i);
    down_convs_.push_back(make_child<Conv2d>(name + ".0", options.dims[i], options.dims[i + 1], 2,
                                             Conv2dOptions{.stride = 2}, Conv2dInit{.bias = false}));
    down_norms_.push_back(make_child<LayerNorm>(name + ".1.norm", options.dims[i + 1]));
  }
  for (int64_t o : options.outputs)
    output_norms_.push_back(
        make_child<LayerNorm>(fmt::format("norms.{}.norm", o - 1), options.dims[static_cast<size_t>(o - 1)]));
}

template <class F>
Var Dat::run(const Var& images, const F& visit) {
  ModuleScope scope(*this);
  Var x = patch_norm_->forward(patch_conv_->forward(images));
  for (size_t i = 0; i < stages_.size(); ++i) {
    x = stages_[i]->forward(x);
    visit(static_cast<int64_t>(i + 1), x);
    if (i + 1 < stages_.size()) x = down_norms_[i]->forward(down_convs_[i]->forward(x));
  }
  return x;
}

Var Dat::features(const Var& images) {
  return run(images, [](int64_t, const Var&) {});
}

std::vector<Var> Dat::forward(const Var& images) {
  std::vector<Var> maps;
  run(images, [&](int64_t stage, const Var& x) {
    if (std::find(options_.outputs.begin(), options_.outputs.end(), stage) != options_.outputs.end())
      maps.push_back(output_norms_[maps.size()]->forward(x));
  });
  return maps;
}

std::vector<int64_t> Dat::channels() const {
  std::vector<int64_t> out;
  for (int64_t o : options_.outputs) out.push_back(options_.dims[static_cast<size_t>(o - 1)]);
  return out;
}

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
          "{}.blocks: \"{}\", expected a word a stage of the letters L (window), S (shifted window) and "
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
      fail_input("{}.{}: [{}], expected {} positive numbers, one a stage", args.path(), key,
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

// The one reader of the section: what DatOptions does not know is an error.
DatOptions read_all(const Args& args, std::vector<int64_t> outputs) {
  DatOptions options = DatOptions::read(args);
  args.finish();
  options.outputs = std::move(outputs);
  return options;
}

std::shared_ptr<Backbone> build_dat(const Args& args, const std::vector<int64_t>& default_outputs) {
  std::vector<int64_t> outputs = args.get_ints("outputs", default_outputs);
  DatOptions options = read_all(args, outputs);
  auto stages = static_cast<int64_t>(options.blocks.size());
  if (outputs.empty() || !std::is_sorted(outputs.begin(), outputs.end()) || outputs.front() < 1 ||
      outputs.back() > stages)
    fail_input("{}.outputs: [{}], expected ascending stages from 1 to {}", args.path(),
               fmt::join(outputs, ", "), stages);
  return std::make_shared<Dat>(options);
}

std::shared_ptr<Classifier> build_dat_classifier(const Args& args, int64_t num_classes) {
  return std::make_shared<DatClassifier>(read_all(args, {}), num_classes);
}

SACCADE_REGISTER_BACKBONE(dat, build_dat, build_dat_classifier);

}  // namespace
}  // namespace saccade
