// DAT (Xia et al. 2022, "Vision Transformer with Deformable Attention"; the CVPR 2022 models T, S and B):
// windows, shifted windows and deformable attention in four stages, with the official parameter names.
#include <cmath>

#include "models/common/vision_block.h"
#include "models/dat/dat_backbone.h"
#include "models/weights/inference.h"

namespace saccade {
namespace {

constexpr int64_t kDatHeadChannels = 32;  // in all official models

// Returns the section of a block's attention layer. L is window attention, S windows shifted by half their
// size, rounded up (Swin rounds down), P spatial reduction (row P of the paper's Table 6).
Args attention_section(const DatOptions& o, size_t stage, char letter) {
  if (letter == 'D') return deformable_section(o, stage, "");
  Args args;
  args.set("type", std::string(letter == 'P' ? "spatial_reduction" : "window"));
  args.set("variant", std::string("dat"));
  if (letter == 'P') {
    args.set("reduction", o.reductions[stage]);
  } else {
    args.set("window", o.window);
    args.set("shift", letter == 'S' ? (o.window + 1) / 2 : 0);
  }
  return args;
}

class DatStage : public Module {
 public:
  static inline const DatFamily kFamily{
      .type = "DAT",
      .classifier_type = "DatClassifier",
      .letters = "LSPD",
      .meaning = "L (window), S (shifted window), P (spatial reduction) and D (deformable)",
      .overlap = false,
      .min_window = 2,
      .max_window = 64,
      .blocks = "LS LS LDLDLD LD",  // DAT-T
      .defaults = {.dims = {96, 192, 384, 768},
                   .heads = {3, 6, 12, 24},
                   .groups = {1, 1, 3, 6},
                   .kernels = {9, 7, 5, 3},
                   .strides = {1, 1, 1, 1},
                   .reductions = {8, 4, 2, 1}}};

  // drop_path: the probabilities of the blocks
  DatStage(const DatOptions& o, size_t stage, const std::vector<double>& drop_path) {
    int64_t dim = o.dims[stage];
    for (size_t j = 0; j < o.blocks[stage].size(); ++j) {
      Args section = attention_section(o, stage, o.blocks[stage][j]);
      PreNormBlock block{.wants_points = wants_points(section, kDatAttention), .drop_path = drop_path[j]};
      block.attn = child(fmt::format("attns.{}", j),
                         make_attention(section, kDatAttention, {.dim = dim, .heads = o.heads[stage]}));
      block.mlp = make_child<Mlp>(
          fmt::format("mlps.{}", j), std::vector{dim, kDatMlpRatio * dim, dim},
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

 private:
  std::vector<PreNormBlock> blocks_;
};

// Infers an official classifier's configuration from names and shapes. A shifted window has no tensors of its
// own: officially every second window is shifted.
bool infer_dat_classifier(Inference& in) {
  if (!in.has("cls_head.weight") || !in.has("patch_proj.0.weight") ||
      !in.has("stages.0.mlps.0.chunk.linear1.weight"))
    return false;
  const std::vector<int64_t>& usual_kernels = DatStage::kFamily.defaults.kernels;
  DatOptions found;
  bool has_reductions = false;
  for (size_t s = 0; s < kMaxStages; ++s) {
    const std::string stage = fmt::format("stages.{}.", s);
    const int64_t depth = in.count(stage + "mlps.", ".chunk.linear1.weight");
    if (depth == 0) break;
    found.dims.push_back(
        in.size(s == 0 ? "patch_proj.0.weight" : fmt::format("down_projs.{}.0.weight", s - 1), 0));
    found.groups.push_back(1);
    found.heads.push_back(0);
    found.reductions.push_back(1);
    found.kernels.push_back(s < usual_kernels.size() ? usual_kernels[s] : 3);
    std::string& word = found.blocks.emplace_back();
    for (int64_t j = 0; j < depth; ++j) {
      const std::string block = fmt::format("{}attns.{}.", stage, j);
      const std::string window_table = block + "relative_position_bias_table";
      const std::string reduction = block + "proj_ds.0.weight";
      const bool is_pyramid = in.has(block + "kv.weight");
      word += is_pyramid ? 'P' : in.has(block + "conv_offset.0.weight") ? 'D' : j % 2 == 1 ? 'S' : 'L';
      has_reductions |= is_pyramid;
      if (is_pyramid && in.has(reduction)) found.reductions.back() = in.size(reduction, 2);
      if (word.back() == 'D') infer_deformable(in, block, found);
      if (is_pyramid || word.back() == 'D' || !in.has(window_table)) continue;
      found.heads.back() = in.size(window_table, 1);
      found.window = (std::llround(std::sqrt(static_cast<double>(in.size(window_table, 0)))) + 1) / 2;
    }
    if (found.heads.back() > 0) continue;
    // No table gives the number of heads.
    found.heads.back() = std::max<int64_t>(1, found.dims.back() / kDatHeadChannels);
    in.assumed.push_back(fmt::format("model.backbone.arg.heads: {} in stage {}", found.heads.back(), s + 1));
  }
  if (!has_reductions) found.reductions.clear();
  set_dat(in, found);
  return true;
}

SACCADE_REGISTER_BACKBONE(dat, build_dat<DatStage>, build_dat_classifier<DatStage>, nullptr, false,
                          infer_dat_classifier);

}  // namespace
}  // namespace saccade
