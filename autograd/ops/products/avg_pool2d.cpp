// Average pooling by windows, and to a size of one's own.
#include "core/kernels/avg_pool2d/avg_pool2d.h"

#include "autograd/ops.h"
#include "core/tensor/integers.h"

namespace saccade {
namespace {

template <bool kAdaptive>
struct AvgPool2d {
  static constexpr const char* kName = kAdaptive ? "adaptive_avg_pool2d" : "avg_pool2d";
  static constexpr auto macs = no_macs;
  int64_t height, width, window;  // window: 0 with kAdaptive
  Shape from{};
  void describe(OpAttributes& to) const {
    if constexpr (kAdaptive)
      to.add("height", height).add("width", width);
    else
      to.add("window", window);
  }

  Tensor forward(Context&, const Tensors& in) {
    const Tensor x = in[0].contiguous();
    from = x.shape();
    Tensor y = Tensor::empty({from[0], height, width, from[3]}, x.dtype(), x.device());
    kernels::avg_pool2d_forward(x, window, y);
    return y;
  }
  Gradients backward(const Context&, const Tensor& dy) const {
    Tensor dx = Tensor::empty(from, dy.dtype(), dy.device());
    kernels::avg_pool2d_backward(dy.contiguous(), window, dx);
    return {dx};
  }
};

}  // namespace

Var avg_pool2d(const Var& x, int64_t window) {
  SACCADE_CHECK(x.rank() == 4, "[avg_pool2d] x, got shape {}, expected [N, H, W, C]", x.shape());
  SACCADE_CHECK(window >= 1, "[avg_pool2d] got a window of {}, expected at least 1", window);
  return run_op(AvgPool2d<false>{ceil_div(x.dim(1), window), ceil_div(x.dim(2), window), window}, {x});
}

Var adaptive_avg_pool2d(const Var& x, int64_t height, int64_t width) {
  SACCADE_CHECK(x.rank() == 4 && x.dim(1) > 0 && x.dim(2) > 0,
                "[adaptive_avg_pool2d] x, got {}, expected [N, H, W, C] with cells", x.shape());
  SACCADE_CHECK(height >= 1 && width >= 1,
                "[adaptive_avg_pool2d] got a size of {} x {}, expected at least 1 x 1", height, width);
  return run_op(AvgPool2d<true>{height, width, 0}, {x});
}

}  // namespace saccade
