// Multi-scale deformable attention (Zhu et al. 2021, Deformable DETR, eq. 3): every query samples P points
// per head and level around its reference point. Names and initialisation are the official ones.
#include <cmath>
#include <numbers>

#include "core/kernels/ms_deform_attn/ms_deform_attn.h"
#include "layers/attention.h"
#include "layers/linear.h"
#include "layers/module_scope.h"

namespace saccade {
namespace {

// Head m starts by looking in direction 2 pi m / M, its point p at distance p + 1 cells.
std::vector<float> initial_offsets(int64_t heads, int64_t levels, int64_t points) {
  std::vector<float> bias;
  for (int64_t m = 0; m < heads; ++m) {
    double theta = 2 * std::numbers::pi * static_cast<double>(m) / static_cast<double>(heads);
    double x = std::cos(theta), y = std::sin(theta), reach = std::max(std::abs(x), std::abs(y));
    for (int64_t l = 0; l < levels; ++l) {
      for (int64_t p = 1; p <= points; ++p) {
        bias.push_back(static_cast<float>(x / reach) * static_cast<float>(p));
        bias.push_back(static_cast<float>(y / reach) * static_cast<float>(p));
      }
    }
  }
  return bias;
}

}  // namespace

class MSDeformAttn : public Attention {
 public:
  MSDeformAttn(const AttentionShape& shape, const Args& args)
      : dim_(shape.dim),
        heads_(shape.heads),
        levels_(shape.levels),
        points_(args.get_int("points", shape.points, 1, 64)) {
    LinearOptions xavier{.weight_init = init::xavier_uniform(), .bias_init = init::constant(0)};
    sampling_offsets_ = make_child<Linear>(
        "sampling_offsets", dim_, heads_ * levels_ * points_ * 2,
        LinearOptions{.weight_init = init::constant(0),
                      .bias_init = init::values(initial_offsets(heads_, levels_, points_))});
    attention_weights_ =
        make_child<Linear>("attention_weights", dim_, heads_ * levels_ * points_,
                           LinearOptions{.weight_init = init::constant(0), .bias_init = init::constant(0)});
    value_proj_ = make_child<Linear>("value_proj", dim_, dim_, xavier);
    output_proj_ = make_child<Linear>("output_proj", dim_, dim_, xavier);
  }

  Var forward(const AttentionInput& input) override {
    ModuleScope scope(*this);
    int64_t N = input.query.dim(0), Q = input.query.dim(1), S = input.value.dim(1);
    SACCADE_CHECK(input.levels.size() == levels_, "[MSDeformAttn] {} levels, got {}", levels_,
                  input.levels.size());
    if (!input.reference_points.defined())
      fail_input(
          "attention layer ms_deform_attn: needs reference points, which only an encoder and Deformable "
          "DETR's cross-attention have");
    Var value = value_proj_->forward(input.value);
    if (input.padding_mask.defined()) value = masked_fill(value, input.padding_mask.unsqueeze(-1), 0);
    value = reshape(value, {N, S, heads_, dim_ / heads_});
    Var offsets = reshape(sampling_offsets_->forward(input.query), {N, Q, heads_, levels_, points_, 2});
    Var logits = reshape(attention_weights_->forward(input.query), {N, Q, heads_, levels_ * points_});
    if (input.record) record(input, offsets.value(), logits.value());
    return output_proj_->forward(
        ms_deform_attn(value, input.reference_points, offsets, logits, input.levels));
  }
  std::string type_name() const override { return "MSDeformAttn"; }

 private:
  void record(const AttentionInput& input, const Tensor& offsets, const Tensor& logits) const {
    auto f32 = [](const Tensor& t) { return t.to(DType::kF32).contiguous(); };
    const Shape& shape = offsets.shape();
    input.record->locations = Tensor::empty(shape, DType::kF32, offsets.device());
    input.record->weights =
        Tensor::empty({shape[0], shape[1], shape[2], shape[3], shape[4]}, DType::kF32, offsets.device());
    kernels::ms_deform_locations(f32(input.reference_points.value()), f32(offsets), f32(logits), input.levels,
                                 input.record->locations, input.record->weights);
  }

  int64_t dim_, heads_, levels_, points_;
  std::shared_ptr<Linear> sampling_offsets_, attention_weights_, value_proj_, output_proj_;
};

SACCADE_REGISTER_ATTENTION(
    "ms_deform_attn", MSDeformAttn,
    "multi-scale deformable attention (Zhu et al. 2021, Deformable DETR, eq. 3)",
    "query [N, Q, C], value [N, S, C] of L maps, reference points [N, Q, L, 2 or 4] -> [N, Q, C]",
    "O(N_q C^2 + N_k C^2 + N_q L K C): linear in the tokens", AttentionInputs::kReferencePoints);

}  // namespace saccade
