#include "core/kernels/avg_pool2d/adaptive_avg_pool2d.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

struct AdaptiveAvgPool2d {
  static constexpr const char* kName = "adaptive_avg_pool2d";
  static constexpr auto macs = no_macs;
  int64_t height, width;
  Shape from{};
  void describe(OpAttributes& to) const { to.add("height", height).add("width", width); }

  Tensor forward(Context&, const Tensors& in) {
    const Tensor x = in[0].contiguous();
    from = x.shape();
    Tensor y = Tensor::empty({from[0], height, width, from[3]}, x.dtype(), x.device());
    kernels::adaptive_avg_pool2d_forward(x, y);
    return y;
  }
  Gradients backward(const Context&, const Tensor& dy) const {
    Tensor dx = Tensor::empty(from, dy.dtype(), dy.device());
    kernels::adaptive_avg_pool2d_backward(dy.contiguous(), dx);
    return {dx};
  }
};

}  // namespace

Var adaptive_avg_pool2d(const Var& x, int64_t height, int64_t width) {
  constexpr const char* op = AdaptiveAvgPool2d::kName;
  SACCADE_CHECK(x.rank() == 4 && x.dim(1) > 0 && x.dim(2) > 0,
                "[{}] x, got {}, expected [N, H, W, C] with cells", op, x.shape().to_string());
  SACCADE_CHECK(height >= 1 && width >= 1, "[{}] got a size of {} x {}, expected at least 1 x 1", op, height,
                width);
  return run_op(AdaptiveAvgPool2d{height, width}, {x});
}

}  // namespace saccade
