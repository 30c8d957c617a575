// Multi-head attention (Vaswani et al. 2017), with the parameter names, the fused projection and the
// initialisation of PyTorch's nn.MultiheadAttention: in_proj_weight [3C, C] holds query, key and value and is
// initialised as one Xavier matrix.
#include "layers/attention.h"
#include "layers/linear.h"

namespace saccade {

class MultiHeadAttention final : public Attention {
 public:
  MultiHeadAttention(const AttentionShape& shape, const Args& args) : dim_(shape.dim) {
    options_.heads = shape.heads;
    options_.dropout = args.get_float("dropout", shape.dropout, 0, 1);
    in_proj_weight_ = param("in_proj_weight", {3 * dim_, dim_}, init::xavier_uniform());
    in_proj_bias_ = param("in_proj_bias", {3 * dim_}, init::constant(0));
    out_proj_ = make_child<Linear>(
        "out_proj", dim_, dim_,
        LinearOptions{.weight_init = init::xavier_uniform(), .bias_init = init::constant(0)});
  }

  Var forward(const AttentionInput& input) override {
    Var q, k, v = project(input.value, 2, 3);
    if (input.query.state() == input.key.state()) {
      // Self-attention: query and key are computed by one product.
      Var qk = project(input.query, 0, 2);
      q = slice(qk, -1, 0, dim_);
      k = slice(qk, -1, dim_, 2 * dim_);
    } else {
      q = project(input.query, 0, 1);
      k = project(input.key, 1, 2);
    }
    AttentionOptions options = options_;
    options.training = training();
    return out_proj_(attend(q, k, v, input, options));
  }
  bool supports_mask() const override { return true; }

 private:
  static Var attend(const Var& q, const Var& k, const Var& v, const AttentionInput& input,
                    const AttentionOptions& options) {
    const Var bias = input.mask.bias.defined() ? Var(input.mask.bias) : Var();
    const int64_t D = input.mask.apart, Q = q.dim(1);
    if (D == 0) return attention(q, k, v, input.padding_mask, bias, options);
    SACCADE_CHECK(
        k.dim(1) == Q && D < Q && !input.padding_mask.defined(),
        "[MultiHeadAttention] a separate group from query {} on, got {} queries and {} keys, expected more "
        "queries, as many keys and no padding mask",
        D, Q, k.dim(1));
    // These queries attend only to each other.
    auto apart = [&](const Var& x) { return slice(x, 1, D, Q); };
    Var first = attention(slice(q, 1, 0, D), k, v, {}, bias, options);
    return concat({first, attention(apart(q), apart(k), apart(v), {}, {}, options)}, 1);
  }

  // Parts [begin, end) of the fused projection.
  Var project(const Var& x, int64_t begin, int64_t end) const {
    return linear(x, slice(in_proj_weight_, 0, begin * dim_, end * dim_),
                  slice(in_proj_bias_, 0, begin * dim_, end * dim_));
  }

  int64_t dim_;
  AttentionOptions options_;
  Var in_proj_weight_, in_proj_bias_;
  Child<Linear> out_proj_;
};

SACCADE_REGISTER_ATTENTION("multi_head_attention", MultiHeadAttention,
                           "scaled dot-product attention of every query with every key (Vaswani et al. 2017)",
                           "query [N, Q, C], key and value [N, S, C], padding mask [N, S] -> [N, Q, C]",
                           "O(N_q C^2 + N_k C^2 + N_q N_k C)");

}  // namespace saccade
