// Spatial-reduction attention (Wang et al. 2021, "Pyramid Vision Transformer", eq. 2 to 4): a convolution
// with adjacent windows and a norm make one key and value from `reduction` x `reduction` tokens of the map.
// Names and initialisation are those of the official PVT (`q`, `kv`, `proj`, `sr`, `norm`) or of row P of
// DAT's Table 6, where the projections are 1x1 convolutions (`q`, `kv`, `proj`, `proj_ds.0`,
// `proj_ds.1.norm`).
#include "layers/attention.h"
#include "layers/conv2d.h"
#include "layers/norm.h"

namespace saccade {

class SpatialReductionAttention final : public Attention {
 public:
  SpatialReductionAttention(const AttentionShape& shape, const Args& args)
      : dim_(shape.dim), reduction_(args.get_int("reduction", 2, 1, 64)) {
    options_.heads = shape.heads;
    options_.dropout = args.get_float("dropout", shape.dropout, 0, 1);
    const bool dat = args.get_choice("variant", "pvt", {"pvt", "dat"}) == "dat";
    auto projection = [&](const std::string& name, int64_t out) -> Projection {
      return {param(name + ".weight", dat ? Shape{out, dim_, 1, 1} : Shape{out, dim_},
                    dat ? init::linear_default(dim_) : init::truncated_normal(0.02)),
              param(name + ".bias", {out}, dat ? init::linear_default(dim_) : init::constant(0))};
    };
    q_ = projection("q", dim_);
    kv_ = projection("kv", 2 * dim_);
    proj_ = projection("proj", dim_);
    if (reduction_ == 1) return;
    reduce_ = make_child<Conv2d>(dat ? "proj_ds.0" : "sr", dim_, dim_, reduction_,
                                 Conv2dOptions{.stride = reduction_});
    norm_ = make_child<LayerNorm>(dat ? "proj_ds.1.norm" : "norm", dim_);
  }

  Var forward(const AttentionInput& input) override {
    Var tokens = input.value;
    Tensor mask = input.padding_mask;
    if (reduction_ > 1) {
      if (input.levels.size() != 1)
        fail_input("attention layer spatial_reduction: the tokens come from {} maps, expected one map",
                   input.levels.size());
      if (mask.defined()) tokens = masked_fill(tokens, mask.unsqueeze(-1), 0);
      tokens = norm_(reduce_(whole_blocks(tokens, input.levels[0])));
      tokens = reshape(tokens, {tokens.dim(0), tokens.dim(1) * tokens.dim(2), dim_});
      if (mask.defined()) mask = reduced_mask(mask, input.levels[0]);
    }
    AttentionOptions options = options_;
    options.training = training();
    const Var k = kv_.forward(tokens, 0, dim_), v = kv_.forward(tokens, dim_, 2 * dim_);
    return proj_.forward(attention(q_.forward(input.query, 0, dim_), k, v, mask, {}, options), 0, dim_);
  }

 private:
  struct Projection {
    Var weight, bias;

    // Computes the outputs from `begin` to `end`: keys and values use a product each, since slices of a joint
    // one would have to be copied.
    Var forward(const Var& x, int64_t begin, int64_t end) const {
      const Var rows = reshape(weight, {weight.dim(0), weight.dim(1)});
      return linear(x, slice(rows, 0, begin, end), slice(bias, 0, begin, end));
    }
  };

  // Returns tokens [N, H W, C] as a map, padded with zeros to whole blocks.
  Var whole_blocks(const Var& tokens, const MapSize& map) const {
    return pad_map(reshape(tokens, {tokens.dim(0), map.height, map.width, tokens.dim(2)}), reduction_);
  }
  // The mask of the keys: true for those whose tokens are all padding.
  Tensor reduced_mask(const Tensor& mask, const MapSize& map) const {
    NoGrad no_grad;
    const Var valid = add_scalar(neg(Var(mask.to(DType::kF32).unsqueeze(-1))), 1);
    const Var any = max_pool2d(whole_blocks(valid, map), reduction_, reduction_, 0);
    return add_scalar(any, -1).value().to(DType::kBool).reshape({mask.dim(0), any.dim(1) * any.dim(2)});
  }

  int64_t dim_, reduction_;
  AttentionOptions options_;
  Projection q_, kv_, proj_;
  Child<Conv2d> reduce_;
  Child<LayerNorm> norm_;
};

SACCADE_REGISTER_ATTENTION(
    "spatial_reduction", SpatialReductionAttention,
    "attention to the blocks of one map, which a strided convolution reduces to one key each (Wang et "
    "al. 2021, PVT)",
    "query = key = value [N, H W, C], one level (H, W) -> [N, H W, C]",
    "O(N_q C^2 + N_q (C^2 + N_q C) / reduction^2)", AttentionInputs::kOneMap);

}  // namespace saccade
