// Multi-head self-attention with one fused projection and the names and initialisation of timm's vision
// transformers: `qkv` and `proj`. Without `key_bias`, queries and values have separate biases, `q_bias` and
// `v_bias` (LW-DETR's ViT).
#include "layers/attention.h"
#include "layers/linear.h"

namespace saccade {

class SelfAttention final : public Attention {
 public:
  SelfAttention(const AttentionShape& shape, const Args& args) : dim_(shape.dim) {
    options_.heads = shape.heads;
    options_.dropout = args.get_float("dropout", shape.dropout, 0, 1);
    LinearOptions linear{.weight_init = init::truncated_normal(0.02), .bias_init = init::constant(0)};
    const bool key_bias = args.get_bool("key_bias", true);
    LinearOptions fused = linear;
    fused.bias = key_bias;
    qkv_ = make_child<Linear>("qkv", dim_, 3 * dim_, fused);
    if (!key_bias) {
      q_bias_ = param("q_bias", {dim_}, init::constant(0));
      v_bias_ = param("v_bias", {dim_}, init::constant(0));
    }
    proj_ = make_child<Linear>("proj", dim_, dim_, linear);
  }

  Var forward(const AttentionInput& input) override {
    // One product each: slices of a joint product would have to be copied and their gradients concatenated.
    auto part = [&](int64_t i) {
      return linear(input.query, slice(qkv_->weight(), 0, i * dim_, (i + 1) * dim_), bias(i));
    };
    AttentionOptions options = options_;
    options.training = training();
    return proj_(attention(part(0), part(1), part(2), input.padding_mask, {}, options));
  }

 private:
  // The bias of queries, keys or values.
  Var bias(int64_t i) const {
    if (q_bias_.defined()) return i == 0 ? q_bias_ : i == 1 ? Var() : v_bias_;
    return slice(qkv_->bias(), 0, i * dim_, (i + 1) * dim_);
  }

  int64_t dim_;
  AttentionOptions options_;
  Child<Linear> qkv_, proj_;
  Var q_bias_, v_bias_;
};

SACCADE_REGISTER_ATTENTION("self_attention", SelfAttention,
                           "scaled dot-product attention among the same tokens, one fused projection (ViT, "
                           "Dosovitskiy et al. 2021)",
                           "query = key = value [N, S, C], padding mask [N, S] -> [N, S, C]",
                           "O(N_q C^2 + N_q^2 C)", AttentionInputs::kOneMap);

}  // namespace saccade
