// Relative position bias at continuous displacements: the generalisation of a table of whole-cell
// displacements to keys that move.
#include "core/kernels/sampled_position_bias/sampled_position_bias.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

struct SampledPositionBias {
  static constexpr const char* kName = "sampled_position_bias";
  static constexpr std::array kCasts{Cast::kF32};

  static int64_t macs(const Tensors&, const Tensor& out) { return out.numel() * 4; }  // four corners

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor table = in[0].contiguous(), query = in[1].contiguous(), key = in[2].contiguous();
    Tensor bias =
        Tensor::empty({key.dim(0), table.dim(0), query.dim(1), key.dim(2)}, table.dtype(), table.device());
    kernels::sampled_position_bias_forward(table, query, key, bias);
    ctx.save(table, query, key);
    return bias;
  }

  Gradients backward(const Context& ctx, const Tensor& dbias) const {
    Gradients grads = ctx.empty_gradients(3);
    kernels::sampled_position_bias_backward(ctx.saved(0), ctx.saved(1), ctx.saved(2), dbias.contiguous(),
                                            grads[0], grads[1], grads[2]);
    return grads;
  }
};

}  // namespace

Var sampled_position_bias(const Var& table, const Var& query_points, const Var& key_points) {
  const Shape &t = table.shape(), &q = query_points.shape(), &k = key_points.shape();
  SACCADE_CHECK(t.rank() == 3 && t[1] > 0 && t[2] > 0,
                "[sampled_position_bias] table, got {}, expected [heads, rows, columns]", t);
  SACCADE_CHECK(
      k.rank() == 4 && k[3] == 2 && k[1] > 0 && t[0] % k[1] == 0,
      "[sampled_position_bias] key points, got {}, expected [N, G, S, 2] with G a divisor of the {} "
      "heads",
      k, t[0]);
  SACCADE_CHECK(q.rank() == 3 && (q[0] == k[0] || q[0] == 1) && q[2] == 2,
                "[sampled_position_bias] query points, got {}, expected [{} or 1, Q, 2]", q, k[0]);
  return run_op(SampledPositionBias{}, {table, query_points, key_points});
}

}  // namespace saccade
