#include "core/kernels/avg_pool2d/avg_pool2d.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

struct AvgPool2d {
  static constexpr const char* kName = "avg_pool2d";
  static constexpr auto macs = no_macs;
  int64_t window;
  Shape x_shape{};
  void describe(OpAttributes& to) const { to.add("window", window); }

  Tensor forward(Context&, const Tensors& in) {
    Tensor x = in[0].contiguous();
    x_shape = x.shape();
    auto size = [&](int axis) { return (x_shape[axis] + window - 1) / window; };
    Tensor y = Tensor::empty({x_shape[0], size(1), size(2), x_shape[3]}, x.dtype(), x.device());
    kernels::avg_pool2d_forward(x, window, y);
    return y;
  }

  Gradients backward(const Context&, const Tensor& dy) const {
    Tensor dx = Tensor::empty(x_shape, dy.dtype(), dy.device());
    kernels::avg_pool2d_backward(dy.contiguous(), window, dx);
    return {dx};
  }
};

}  // namespace

Var avg_pool2d(const Var& x, int64_t window) {
  SACCADE_CHECK(x.rank() == 4, "[avg_pool2d] x, got shape {}, expected [N, H, W, C]", x.shape().to_string());
  SACCADE_CHECK(window >= 1, "[avg_pool2d] got a window of {}, expected at least 1", window);
  return run_op(AvgPool2d{window}, {x});
}

}  // namespace saccade
