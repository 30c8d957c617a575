// A transposed convolution whose windows touch: every cell becomes a window of its own,
// so it is a product and a change of axes.
#include "autograd/ops.h"

namespace saccade {

Var conv_transpose2d(const Var& x, const Var& weight, const Var& bias, int64_t stride,
                     Activation activation) {
  SACCADE_CHECK(x.rank() == 4 && weight.rank() == 4 && x.dim(3) == weight.dim(0),
                "[conv_transpose2d] got x {} and weight {}, expected [N, H, W, C] and [C, C_out, R, S]",
                x.shape(), weight.shape());
  SACCADE_CHECK(stride >= 1 && weight.dim(2) == stride && weight.dim(3) == stride,
                "[conv_transpose2d] stride {} with weight {}, expected windows of the stride", stride,
                weight.shape());
  const int64_t N = x.dim(0), H = x.dim(1), W = x.dim(2), in = weight.dim(0), out = weight.dim(1);
  SACCADE_CHECK(!bias.defined() || bias.shape() == Shape{out},
                "[conv_transpose2d] bias, got shape {}, expected [{}]", bias.shape(), out);
  const int64_t places = stride * stride;
  const int rows_first[] = {2, 3, 1, 0}, places_apart[] = {0, 1, 3, 2, 4, 5};
  const Var rows = reshape(permute(weight, rows_first), {places * out, in});
  const Var biases =
      bias.defined() ? reshape(expand(reshape(bias, {1, out}), {places, out}), {places * out}) : Var();
  const Var y = reshape(linear(x, rows, biases, activation), {N, H, W, stride, stride, out});
  return reshape(permute(y, places_apart), {N, H * stride, W * stride, out});
}

}  // namespace saccade
