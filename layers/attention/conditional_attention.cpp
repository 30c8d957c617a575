// Conditional cross-attention (Meng et al. 2021): the score of a query and a key is the product of their
// contents plus that of their positions, each with its own projections. Parameters are named as in
// multi_head_attention, with `position_proj_weight` [2C, C] (queries, keys) for the positions.
#include "layers/attention.h"
#include "layers/linear.h"

namespace saccade {
namespace {

constexpr float kNearness = 3;  // of a score of 1 in each wave

// For positions whose halves encode two axes, each in pairs of a sine and a cosine from the shortest wave to
// the longest (as sine_positions does): every head starts with some waves of both axes, the same for queries
// and keys. So a query attends to its surroundings from the first step on. (In the paper these weights are
// random.)
Initializer looks_around(int64_t heads) {
  return [heads](Tensor& t, Rng& rng) {
    const int64_t C = t.dim(1), D = C / heads;
    if (D % 4 != 0) return init::xavier_uniform()(t, rng);
    init::constant(0)(t, rng);
    for (int64_t row = 0; row < t.dim(0); ++row) {
      const int64_t head = row % C / D, i = row % D, axis = i / (D / 2), wave = i % (D / 2) / 2;
      t.data<float>()[row * C + axis * (C / 2) + 2 * (wave * heads + head) + i % 2] = kNearness;
    }
  };
}

}  // namespace

class ConditionalAttention final : public Attention {
 public:
  ConditionalAttention(const AttentionShape& shape, const Args& args) : dim_(shape.dim) {
    options_.heads = shape.heads;
    options_.dropout = args.get_float("dropout", shape.dropout, 0, 1);
    in_proj_weight_ = param("in_proj_weight", {3 * dim_, dim_}, init::xavier_uniform());
    in_proj_bias_ = param("in_proj_bias", {3 * dim_}, init::constant(0));
    position_proj_weight_ = param("position_proj_weight", {2 * dim_, dim_}, looks_around(shape.heads));
    out_proj_ = make_child<Linear>(
        "out_proj", dim_, dim_,
        LinearOptions{.weight_init = init::xavier_uniform(), .bias_init = init::constant(0)});
  }

  Var forward(const AttentionInput& input) override {
    AttentionOptions options = options_;
    options.training = training();
    return out_proj_(attention(with_position(input.query, input.query_position, 0),
                               with_position(input.key, input.key_position, 1), content(input.value, 2),
                               input.padding_mask, {}, options));
  }
  bool separates_positions() const override { return true; }

 private:
  Var content(const Var& x, int64_t part) const {
    return linear(x, slice(in_proj_weight_, 0, part * dim_, (part + 1) * dim_),
                  slice(in_proj_bias_, 0, part * dim_, (part + 1) * dim_));
  }

  // The heads' contents, each followed by its position: [N, S, 2C]; without positions, the contents alone.
  Var with_position(const Var& x, const Var& position, int64_t part) const {
    Var projected = content(x, part);
    if (!position.defined()) return projected;
    const int64_t N = x.dim(0), S = x.dim(1), H = options_.heads, D = dim_ / H;
    Var placed = linear(position, slice(position_proj_weight_, 0, part * dim_, (part + 1) * dim_), {});
    if (placed.dim(0) != N) placed = expand(placed, {N, S, dim_});
    return reshape(concat({reshape(projected, {N, S, H, D}), reshape(placed, {N, S, H, D})}, 3),
                   {N, S, 2 * dim_});
  }

  int64_t dim_;
  AttentionOptions options_;
  Var in_proj_weight_, in_proj_bias_, position_proj_weight_;
  Child<Linear> out_proj_;
};

SACCADE_REGISTER_ATTENTION(
    "conditional_attention", ConditionalAttention,
    "dot-product attention whose scores add those of contents and of positions (Meng et al. 2021)",
    "query and its position [N, Q, C], key, its position and value [N, S, C], padding mask [N, S] "
    "-> [N, Q, C]",
    "O(N_q C^2 + N_k C^2 + N_q N_k C)");

}  // namespace saccade
