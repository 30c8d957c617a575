// Neighbourhood attention (Hassani et al. 2023, "Neighborhood Attention Transformer") with the names and
// initialisation of NATTEN and DAT++: `qkv`, `proj` and the relative position bias `rpb`
// [heads, 2 window - 1, 2 window - 1].
#include "layers/attention.h"
#include "layers/conv2d.h"
#include "layers/linear.h"

namespace saccade {

class NeighbourhoodAttention final : public Attention {
 public:
  NeighbourhoodAttention(const AttentionShape& shape, const Args& args) : dim_(shape.dim) {
    options_.heads = shape.heads;
    options_.window = args.get_int("window", 7, 1, 63);
    if (options_.window % 2 == 0)
      fail_input("{}.window: {} is even, expected an odd size", args.path(), options_.window);
    const int64_t side = 2 * options_.window - 1;
    qkv_ = make_child<Linear>("qkv", dim_, 3 * dim_);
    table_ = param("rpb", {shape.heads, side, side}, init::truncated_normal(0.02));
    proj_ = make_child<Linear>("proj", dim_, dim_);
  }

  Var forward(const AttentionInput& input) override {
    if (input.levels.size() != 1)
      fail_input("attention layer neighbourhood: the tokens come from {} maps, expected one map",
                 input.levels.size());
    const auto [height, width] = input.levels[0];
    const int64_t batch = input.query.dim(0);
    // A smaller map is padded with zeros, whose keys and values are the projection's bias.
    const MapSize filled{std::max(height, options_.window), std::max(width, options_.window)};
    Var x = fill_map(reshape(input.query, {batch, height, width, dim_}), filled);
    Tensor mask = input.padding_mask;
    if (mask.defined()) {
      mask = Tensor::zeros({batch, filled.height, filled.width}, DType::kBool, mask.device());
      mask.slice(1, 0, height)
          .slice(2, 0, width)
          .copy_from(input.padding_mask.reshape({batch, height, width}));
    }
    Var y = neighbourhood_attention(qkv_(x), table_, mask, options_);
    if (filled != input.levels[0]) y = slice(slice(y, 1, 0, height), 2, 0, width);
    return reshape(proj_(y), {batch, height * width, dim_});
  }

 private:
  int64_t dim_;
  NeighbourhoodAttentionOptions options_;
  Var table_;
  Child<Linear> qkv_, proj_;
};

SACCADE_REGISTER_ATTENTION("neighbourhood", NeighbourhoodAttention,
                           "attention of every token of one map to the window around it, with a relative "
                           "position bias (Hassani et al. 2023, NAT)",
                           "query = key = value [N, H W, C], one level (H, W) -> [N, H W, C]",
                           "O(N_q C^2 + N_q window^2 C)", AttentionInputs::kOneMap);

}  // namespace saccade
