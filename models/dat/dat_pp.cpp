// DAT++ (Xia et al. 2023, "DAT++: Spatially Dynamic Vision Transformer with Deformable Attention"):
// neighbourhood and deformable attention in four stages, whose blocks start with a depthwise convolution
// (local perception unit) and have another one in the feed-forward part. Official parameter names.
#include <fmt/ranges.h>

#include "autograd/engine.h"
#include "layers/attention.h"
#include "layers/position_encoding.h"
#include "models/common/vision_block.h"
#include "models/dat/dat_backbone.h"
#include "models/weights/inference.h"

namespace saccade {
namespace {

// Returns the section of a block's attention layer; N is neighbourhood attention.
Args layer_section(const DatOptions& o, size_t stage, char letter) {
  if (letter != 'N') return deformable_section(o, stage, "dat_pp");
  Args args;
  args.set("type", std::string("neighbourhood"));
  args.set("window", o.window);
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

 private:
  Child<Conv2d> linear1_, linear2_, dwc_;
};

class DatPpStage : public Module {
 public:
  static inline const DatFamily kFamily{.type = "DATpp",
                                        .classifier_type = "DatPpClassifier",
                                        .letters = "ND",
                                        .meaning = "N (neighbourhood) and D (deformable)",
                                        .overlap = true,
                                        .min_window = 1,
                                        .max_window = 63,
                                        .blocks = "ND NDND NDNDNDNDNDNDNDNDND DD",  // DAT-T++
                                        .defaults = {.dims = {64, 128, 256, 512},
                                                     .heads = {2, 4, 8, 16},
                                                     .groups = {1, 2, 4, 8},
                                                     .kernels = {9, 7, 5, 3},
                                                     .strides = {8, 4, 2, 1}}};

  // drop_path: the probabilities of the blocks
  DatPpStage(const DatOptions& o, size_t stage, const std::vector<double>& drop_path) {
    const int64_t dim = o.dims[stage];
    for (size_t j = 0; j < o.blocks[stage].size(); ++j) {
      const Args section = layer_section(o, stage, o.blocks[stage][j]);
      Block block{.wants_points = wants_points(section, kDatAttention), .drop_path = drop_path[j]};
      block.perception = child(fmt::format("local_perception_units.{}", j), depthwise(dim));
      block.attn = child(fmt::format("attns.{}", j),
                         make_attention(section, kDatAttention, {.dim = dim, .heads = o.heads[stage]}));
      block.mlp = make_child<ConvMlp>(fmt::format("mlps.{}", j), dim, kDatMlpRatio * dim);
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

// Infers an official classifier's configuration from names and shapes. These lack the strides of the offset
// networks: officially every stage's key grid is as large as the last stage's map.
bool infer_dat_pp_classifier(Inference& in) {
  if (!in.has("cls_head.weight") || !in.has("stages.0.local_perception_units.0.weight")) return false;
  DatOptions found;
  for (size_t s = 0; s < kMaxStages; ++s) {
    const std::string stage = fmt::format("stages.{}.", s);
    const int64_t depth = in.count(stage + "local_perception_units.", ".weight");
    if (depth == 0) break;
    found.dims.push_back(in.size(stage + "local_perception_units.0.weight", 0));
    found.heads.push_back(1);
    found.groups.push_back(1);
    found.kernels.push_back(3);
    std::string& word = found.blocks.emplace_back();
    for (int64_t j = 0; j < depth; ++j) {
      const std::string block = fmt::format("{}attns.{}.", stage, j), table = block + "rpb";
      word += in.has(table) ? 'N' : 'D';
      infer_deformable(in, block, found);
      if (!in.has(table)) continue;
      found.heads.back() = in.size(table, 0);
      found.window = (in.size(table, 1) + 1) / 2;
    }
  }
  found.strides.assign(found.dims.size(), 1);
  for (size_t i = found.dims.size(); i-- > 1;)
    found.strides[i - 1] = std::min<int64_t>(2 * found.strides[i], 64);
  in.assumed.push_back(fmt::format("model.backbone.arg.strides: [{}]", fmt::join(found.strides, ", ")));
  set_dat(in, found);
  return true;
}

SACCADE_REGISTER_BACKBONE(dat_pp, build_dat<DatPpStage>, build_dat_classifier<DatPpStage>, nullptr, false,
                          infer_dat_pp_classifier);

}  // namespace
}  // namespace saccade
