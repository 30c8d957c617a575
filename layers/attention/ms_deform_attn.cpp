// Multi-scale deformable attention (Zhu et al. 2021, Deformable DETR, eq. 3): every query samples P points
// per head and level around its reference point. Names and initialisation are the official ones.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "core/kernels/ms_deform_attn/ms_deform_attn.h"
#include "core/kernels/ms_deform_attn/ms_deform_projected.h"
#include "layers/attention.h"
#include "layers/linear.h"

namespace saccade {
namespace {

// Initially, head m looks in direction 2 pi m / M, its point p at distance p + 1 cells. points: the number of
// points of each level.
std::vector<float> initial_offsets(int64_t heads, const std::vector<int64_t>& points) {
  std::vector<float> bias;
  for (int64_t m = 0; m < heads; ++m) {
    double theta = 2 * std::numbers::pi * static_cast<double>(m) / static_cast<double>(heads);
    double x = std::cos(theta), y = std::sin(theta), reach = std::max(std::abs(x), std::abs(y));
    for (int64_t count : points) {
      for (int64_t p = 1; p <= count; ++p) {
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
        level_points_(args.get_ints("level_points", {}, 1, 64)),
        points_(args.get_int("points", shape.points, 1, 64)),
        discrete_(args.get_choice("sampling", "bilinear", {"bilinear", "discrete"}) == "discrete") {
    if (level_points_.empty()) level_points_.assign(static_cast<size_t>(levels_), points_);
    if (std::ssize(level_points_) != levels_)
      fail_input("{}.level_points: {} numbers for {} levels", args.path(), level_points_.size(), levels_);
    points_ = *std::ranges::max_element(level_points_);
    const int64_t all = std::accumulate(level_points_.begin(), level_points_.end(), int64_t{0});
    LinearOptions xavier{.weight_init = init::xavier_uniform(), .bias_init = init::constant(0)};
    sampling_offsets_ =
        make_child<Linear>("sampling_offsets", dim_, heads_ * all * 2,
                           LinearOptions{.weight_init = init::constant(0),
                                         .bias_init = init::values(initial_offsets(heads_, level_points_))});
    attention_weights_ =
        make_child<Linear>("attention_weights", dim_, heads_ * all,
                           LinearOptions{.weight_init = init::constant(0), .bias_init = init::constant(0)});
    if (!args.get_bool("projections", true)) return;
    value_proj_ = make_child<Linear>("value_proj", dim_, dim_, xavier);
    output_proj_ = make_child<Linear>("output_proj", dim_, dim_, xavier);
  }

  Var forward(const AttentionInput& input) override {
    int64_t N = input.query.dim(0), Q = input.query.dim(1), S = input.value.dim(1);
    SACCADE_CHECK(input.levels.size() == levels_, "[MSDeformAttn] {} levels, got {}", levels_,
                  input.levels.size());
    if (!input.reference_points.defined())
      fail_input(
          "attention layer ms_deform_attn: needs reference points, which only an encoder and Deformable "
          "DETR's cross-attention have");
    auto [offsets, logits] = sampling(input.query, N, Q, input.reference_points.dim(3) == 4);
    Var reference = input.reference_points;
    if (discrete_) {  // the cells of the points, which receive no gradient
      offsets = ms_deform_cells(reference.detach(), offsets.detach(), input.levels);
      reference = mul_scalar(slice(reference.detach(), 3, 0, 2), 0);
    }
    if (input.record) record(input, reference.value(), offsets.value(), logits.value());
    if (value_proj_ && projects_samples(input))
      return output_proj_(sample_and_project(input, reference.value(), offsets.value(), logits.value()));
    Var value = value_proj_ ? value_proj_(input.value) : input.value;
    if (input.padding_mask.defined()) value = masked_fill(value, input.padding_mask.unsqueeze(-1), 0);
    value = reshape(value, {N, S, heads_, dim_ / heads_});
    const Var y = ms_deform_attn(value, reference, offsets, logits, input.levels);
    return output_proj_ ? output_proj_(y) : y;
  }

 private:
  // Returns offsets [N, Q, M, L, P, 2] and logits [N, Q, M, L P], where P is the largest number of points of
  // a level: the points that a level lacks have no weight.
  std::pair<Var, Var> sampling(const Var& query, int64_t N, int64_t Q, bool in_boxes) const {
    const bool even = std::ranges::count(level_points_, points_) == levels_;
    // Values that the op reads as they come are not rounded first.
    const ProductDtype dtype = even ? ProductDtype::kSums : ProductDtype::kCompute;
    Var offsets = sampling_offsets_(query, Activation::kNone, dtype),
        logits = attention_weights_(query, Activation::kNone, dtype);
    const Shape full{N, Q, heads_, levels_, points_, 2};
    if (even) return {reshape(offsets, full), reshape(logits, {N, Q, heads_, levels_ * points_})};
    const int64_t all = logits.dim(2) / heads_;
    offsets = reshape(offsets, {N, Q, heads_, all, 2});
    logits = reshape(logits, {N, Q, heads_, all});
    Vars o, l;
    int64_t begin = 0;
    for (int64_t count : level_points_) {
      // Offsets in boxes are relative to the level's own number of points (RT-DETRv2).
      Var part = slice(offsets, 3, begin, begin + count);
      o.push_back(in_boxes ? mul_scalar(part, static_cast<double>(points_) / static_cast<double>(count))
                           : part);
      l.push_back(slice(logits, 3, begin, begin + count));
      begin += count;
      if (count == points_) continue;
      const int64_t rest = points_ - count;
      o.push_back(Var(Tensor::zeros({N, Q, heads_, rest, 2}, part.dtype(), part.device())));
      l.push_back(Var(Tensor::full({N, Q, heads_, rest}, -1e9, logits.dtype(), logits.device())));
    }
    return {reshape(concat(o, 3), full), concat(l, 3)};
  }

  // Gradients and observers need the two ops. A GPU projects all tokens in microseconds.
  static bool projects_samples(const AttentionInput& input) {
    return !execution().grad_enabled && !execution().observer && execution().compute == DType::kF32 &&
           input.value.dtype() == DType::kF32 && input.value.value().device() == Device::kCpu;
  }
  Var sample_and_project(const AttentionInput& input, const Tensor& reference, const Tensor& offsets,
                         const Tensor& logits) const {
    Tensor y = Tensor::empty({offsets.dim(0), offsets.dim(1), dim_});
    const Tensor padding = input.padding_mask.defined() ? input.padding_mask.contiguous() : Tensor();
    kernels::ms_deform_projected(input.value.value().contiguous(), padding, value_proj_->weight().value(),
                                 value_proj_->bias().value(), reference.contiguous(), offsets.contiguous(),
                                 logits.contiguous(), input.levels, y);
    return Var(y);
  }

  void record(const AttentionInput& input, const Tensor& reference, const Tensor& offsets,
              const Tensor& logits) const {
    auto f32 = [](const Tensor& t) { return t.to(DType::kF32).contiguous(); };
    const Shape& shape = offsets.shape();
    input.record->locations = Tensor::empty(shape, DType::kF32, offsets.device());
    input.record->weights =
        Tensor::empty({shape[0], shape[1], shape[2], shape[3], shape[4]}, DType::kF32, offsets.device());
    kernels::ms_deform_locations(f32(reference), f32(offsets), f32(logits), input.levels,
                                 input.record->locations, input.record->weights);
  }

  int64_t dim_, heads_, levels_;
  std::vector<int64_t> level_points_;
  int64_t points_;  // the largest of them
  bool discrete_;   // reads only the cell at a rounded position, as RT-DETRv2's weights named "dsp" do
  Child<Linear> sampling_offsets_, attention_weights_;
  Child<Linear> value_proj_, output_proj_;  // null: the tokens are the values (D-FINE)
};

SACCADE_REGISTER_ATTENTION(
    "ms_deform_attn", MSDeformAttn,
    "multi-scale deformable attention (Zhu et al. 2021, Deformable DETR, eq. 3)",
    "query [N, Q, C], value [N, S, C] of L maps, reference points [N, Q, L, 2 or 4] -> [N, Q, C]",
    "O(N_q C^2 + N_k C^2 + N_q L K C): linear in the tokens", AttentionInputs::kReferencePoints);

}  // namespace saccade
