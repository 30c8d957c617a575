// Window attention (Liu et al. 2021, "Swin Transformer", eq. 3 and 4) with the names and initialisation of
// the official Swin (`qkv`, `proj`) or DAT (`proj_qkv`, `proj_out`); both have a relative_position_bias_table
// [(2 window - 1)^2, heads].
#include "layers/attention.h"
#include "layers/linear.h"
#include "layers/position_tables.h"

namespace saccade {

class WindowAttention final : public Attention {
 public:
  WindowAttention(const AttentionShape& shape, const Args& args) : dim_(shape.dim) {
    options_.heads = shape.heads;
    options_.window = args.get_int("window", 7, 1, 1024);
    options_.shift = args.get_int("shift", 0, 0, options_.window - 1);
    shrink_ = args.get_bool("shrink", false);
    bool dat = args.get_choice("variant", "swin", {"swin", "dat"}) == "dat";
    LinearOptions linear;
    if (!dat) linear = {.weight_init = init::truncated_normal(0.02), .bias_init = init::constant(0)};
    int64_t side = 2 * options_.window - 1;
    table_ =
        param("relative_position_bias_table", {side * side, shape.heads},
              init::truncated_normal(dat ? 0.01 : 0.02), true, dat ? &resize_bias_rows : &spread_bias_rows);
    qkv_ = make_child<Linear>(dat ? "proj_qkv" : "qkv", dim_, 3 * dim_, linear);
    proj_ = make_child<Linear>(dat ? "proj_out" : "proj", dim_, dim_, linear);
  }

  Var forward(const AttentionInput& input) override {
    if (input.levels.size() != 1)
      fail_input("window attention: the tokens come from {} maps, expected one map", input.levels.size());
    auto [height, width] = input.levels[0];
    int64_t batch = input.query.dim(0);
    WindowAttentionOptions options = options_;
    if (int64_t side = std::min(height, width); shrink_ && side <= options.window) {
      options.window = side;
      options.shift = 0;
    }
    Tensor mask = input.padding_mask;
    if (mask.defined()) mask = mask.reshape({batch, height, width});
    Var qkv = reshape(qkv_(input.query), {batch, height, width, 3 * dim_});
    Var y = window_attention(qkv, table_, qkv_->bias(), mask, options);
    return proj_(reshape(y, {batch, height * width, dim_}));
  }

 private:
  int64_t dim_;
  WindowAttentionOptions options_;
  bool shrink_;  // a map no larger than the window is a single window without shift
  Var table_;
  Child<Linear> qkv_, proj_;
};

SACCADE_REGISTER_ATTENTION("window", WindowAttention,
                           "attention inside the (shifted) windows of one map, with a relative position bias "
                           "(Liu et al. 2021, Swin)",
                           "query = key = value [N, H W, C], one level (H, W) -> [N, H W, C]",
                           "O(N_q C^2 + N_q window^2 C)", AttentionInputs::kOneMap);

}  // namespace saccade
