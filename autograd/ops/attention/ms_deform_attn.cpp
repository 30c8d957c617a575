// Multi-scale deformable attention. Saves only its inputs: backward recomputes the softmax and the samples.
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

struct MsDeformAttn {
  static constexpr const char* kName = "ms_deform_attn";
  // Coordinates must not be rounded: a bf16 location is off by whole cells on large maps.
  static constexpr std::array kCasts{Cast::kCompute, Cast::kF32};

  FeatureLevels levels;
  void describe(OpAttributes& to) const {
    std::vector<int64_t> sizes;
    for (const MapSize& level : levels) sizes.insert(sizes.end(), {level.height, level.width});
    to.add("levels", std::move(sizes));
  }

  // Offsets have two numbers per sample; each sample weights D channels of four corners, and once more by its
  // attention weight.
  static int64_t macs(const Tensors& in, const Tensor&) { return in[2].numel() / 2 * in[0].dim(3) * 5; }

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor value = in[0].contiguous(), reference = in[1].contiguous();
    Tensor offsets = in[2].contiguous(), logits = in[3].contiguous();
    Tensor y = Tensor::empty({value.dim(0), offsets.dim(1), value.dim(2) * value.dim(3)}, value.dtype(),
                             value.device());
    kernels::ms_deform_attn_forward(value, reference, offsets, logits, levels, y);
    ctx.save(value, reference, offsets, logits);
    return y;
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Gradients grads = ctx.empty_gradients(4);
    Tensor g = dy.to(ctx.saved(0).dtype()).contiguous();
    kernels::ms_deform_attn_backward(ctx.saved(0), ctx.saved(1), ctx.saved(2), ctx.saved(3), levels, g,
                                     grads[0], grads[1], grads[2], grads[3]);
    return grads;
  }
};

// Piecewise constant, so it passes no gradient.
struct MsDeformCells {
  static constexpr const char* kName = "ms_deform_cells";
  static constexpr std::array kCasts{Cast::kF32};
  static constexpr auto macs = no_macs;

  FeatureLevels levels;
  void describe(OpAttributes& to) const { MsDeformAttn{levels}.describe(to); }

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor reference = in[0].contiguous(), offsets = in[1].contiguous();
    Tensor cells = offsets.empty_like();
    kernels::ms_deform_cells(reference, offsets, levels, cells);
    ctx.save(reference, offsets);
    return cells;
  }
  Gradients backward(const Context& ctx, const Tensor&) const {
    Gradients grads = ctx.empty_gradients(2);
    for (Tensor& g : grads)
      if (g.defined()) g.fill(0);
    return grads;
  }
};

void check_points(const char* op, const Var& reference_points, const Var& offsets, int64_t L) {
  SACCADE_CHECK(L > 0, "[{}] no levels, expected at least one", op);
  SACCADE_CHECK(offsets.rank() == 6 && offsets.dim(3) == L && offsets.dim(4) > 0 && offsets.dim(5) == 2,
                "[{}] offsets, got {}, expected [N, Q, M, {}, P, 2]", op, offsets.shape(), L);
  SACCADE_CHECK(reference_points.rank() == 4 && reference_points.dim(0) == offsets.dim(0) &&
                    reference_points.dim(1) == offsets.dim(1) && reference_points.dim(2) == L &&
                    (reference_points.dim(3) == 2 || reference_points.dim(3) == 4),
                "[{}] reference points, got {}, expected [{}, {}, {}, 2 or 4]", op, reference_points.shape(),
                offsets.dim(0), offsets.dim(1), L);
}

}  // namespace

Var ms_deform_cells(const Var& reference_points, const Var& offsets, const FeatureLevels& levels) {
  check_points("ms_deform_cells", reference_points, offsets, levels.size());
  return run_op(MsDeformCells{levels}, {reference_points, offsets});
}

Var ms_deform_attn(const Var& value, const Var& reference_points, const Var& offsets, const Var& logits,
                   const FeatureLevels& levels) {
  int64_t L = levels.size();
  SACCADE_CHECK(L > 0, "[ms_deform_attn] no levels, expected at least one");
  SACCADE_CHECK(
      value.rank() == 4 && value.dim(1) == levels.tokens(),
      "[ms_deform_attn] value, got {}, expected [N, S, M, D] with S = {}, the sum of the level sizes",
      value.shape(), levels.tokens());
  SACCADE_CHECK(offsets.rank() == 6 && offsets.dim(0) == value.dim(0) && offsets.dim(2) == value.dim(2) &&
                    offsets.dim(3) == L && offsets.dim(4) > 0 && offsets.dim(5) == 2,
                "[ms_deform_attn] offsets, got {}, expected [{}, Q, {}, {}, P, 2]", offsets.shape(),
                value.dim(0), value.dim(2), L);
  Shape expected{value.dim(0), offsets.dim(1), value.dim(2), L * offsets.dim(4)};
  SACCADE_CHECK(logits.shape() == expected, "[ms_deform_attn] logits, got {}, expected {}", logits.shape(),
                expected);
  SACCADE_CHECK(reference_points.rank() == 4 && reference_points.dim(0) == value.dim(0) &&
                    reference_points.dim(1) == offsets.dim(1) && reference_points.dim(2) == L &&
                    (reference_points.dim(3) == 2 || reference_points.dim(3) == 4),
                "[ms_deform_attn] reference points, got {}, expected [{}, {}, {}, 2 or 4]",
                reference_points.shape(), value.dim(0), offsets.dim(1), L);
  return run_op(MsDeformAttn{levels}, {value, reference_points, offsets, logits});
}

}  // namespace saccade
