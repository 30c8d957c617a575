// Pooling over windows, and average pooling to a given size.
#include "autograd/ops.h"
#include "core/kernels/avg_pool2d/avg_pool2d.h"
#include "core/kernels/max_pool2d/max_pool2d.h"
#include "core/tensor/integers.h"

namespace saccade {
namespace {

struct MaxPool2d {
  static constexpr const char* kName = "max_pool2d";
  static constexpr auto macs = no_macs;
  kernels::PoolParams p;
  Shape x_shape{};
  void describe(OpAttributes& to) const {
    to.add("kernel", p.kernel).add("stride", p.stride).add("padding", p.padding);
  }

  Tensor forward(Context& ctx, const Tensors& in) {
    Tensor x = in[0].contiguous();
    x_shape = x.shape();
    auto size = [&](int axis) { return (x_shape[axis] + 2 * p.padding - p.kernel) / p.stride + 1; };
    Tensor y = Tensor::empty({x_shape[0], size(1), size(2), x_shape[3]}, x.dtype(), x.device());
    Tensor index = ctx.needs(0) ? Tensor::empty(y.shape(), DType::kU8, x.device()) : Tensor();
    kernels::max_pool2d_forward(x, p, y, index);
    ctx.save(index);
    return y;
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dx = Tensor::empty(x_shape, dy.dtype(), dy.device());
    kernels::max_pool2d_backward(dy.contiguous(), ctx.saved(0), p, dx);
    return {dx};
  }
};

template <bool kAdaptive>
struct AvgPool2d {
  static constexpr const char* kName = kAdaptive ? "adaptive_avg_pool2d" : "avg_pool2d";
  static constexpr auto macs = no_macs;
  int64_t height, width, window;  // window: 0 if kAdaptive
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

Var max_pool2d(const Var& x, int64_t kernel, int64_t stride, int64_t padding) {
  SACCADE_CHECK(x.rank() == 4, "[max_pool2d] x, got shape {}, expected [N, H, W, C]", x.shape());
  SACCADE_CHECK(
      kernel >= 1 && kernel <= 16 && stride >= 1 && padding >= 0 && padding <= kernel / 2,
      "[max_pool2d] got kernel {}, stride {}, padding {}, expected 1 to 16, at least 1, 0 to kernel / 2",
      kernel, stride, padding);
  SACCADE_CHECK(x.dim(1) + 2 * padding >= kernel && x.dim(2) + 2 * padding >= kernel,
                "[max_pool2d] x {} with padding {} is smaller than the kernel of {}", x.shape(), padding,
                kernel);
  return run_op(MaxPool2d{{kernel, stride, padding}}, {x});
}

Var avg_pool2d(const Var& x, int64_t window) {
  SACCADE_CHECK(x.rank() == 4, "[avg_pool2d] x, got shape {}, expected [N, H, W, C]", x.shape());
  SACCADE_CHECK(window >= 1, "[avg_pool2d] got a window of {}, expected at least 1", window);
  return run_op(AvgPool2d<false>{ceil_div(x.dim(1), window), ceil_div(x.dim(2), window), window}, {x});
}

Var adaptive_avg_pool2d(const Var& x, int64_t height, int64_t width) {
  SACCADE_CHECK(x.rank() == 4 && x.dim(1) > 0 && x.dim(2) > 0,
                "[adaptive_avg_pool2d] x, got {}, expected [N, H, W, C] with H, W > 0", x.shape());
  SACCADE_CHECK(height >= 1 && width >= 1,
                "[adaptive_avg_pool2d] got a size of {} x {}, expected at least 1 x 1", height, width);
  return run_op(AvgPool2d<true>{height, width, 0}, {x});
}

}  // namespace saccade
