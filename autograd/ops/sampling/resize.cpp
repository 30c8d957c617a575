#include "core/kernels/resize/resize.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

using kernels::Resampling;

template <Resampling kHow>
struct Resize {
  static constexpr const char* kName = kHow == Resampling::kNearest ? "resize_nearest" : "resize_bilinear";
  static constexpr auto macs = no_macs;
  int64_t height, width;
  Shape from{};
  void describe(OpAttributes& to) const { to.add("height", height).add("width", width); }

  Tensor forward(Context&, const Tensors& in) {
    const Tensor x = in[0].contiguous();
    from = x.shape();
    Tensor y = Tensor::empty({from[0], height, width, from[3]}, x.dtype(), x.device());
    kernels::resize_forward(x, kHow, y);
    return y;
  }
  Gradients backward(const Context&, const Tensor& dy) const {
    Tensor dx = Tensor::empty(from, dy.dtype(), dy.device());
    kernels::resize_backward(dy.contiguous(), kHow, dx);
    return {dx};
  }
};

template <Resampling kHow>
Var resize(const Var& x, int64_t height, int64_t width) {
  constexpr const char* op = Resize<kHow>::kName;
  SACCADE_CHECK(x.rank() == 4 && x.dim(1) > 0 && x.dim(2) > 0,
                "[{}] x, got {}, expected [N, H, W, C] with H, W > 0", op, x.shape());
  SACCADE_CHECK(height >= 1 && width >= 1, "[{}] got a size of {} x {}, expected at least 1 x 1", op, height,
                width);
  if (x.dim(1) == height && x.dim(2) == width) return x;
  return run_op(Resize<kHow>{height, width}, {x});
}

}  // namespace

Var resize_nearest(const Var& x, int64_t height, int64_t width) {
  return resize<Resampling::kNearest>(x, height, width);
}
Var resize_bilinear(const Var& x, int64_t height, int64_t width) {
  return resize<Resampling::kBilinear>(x, height, width);
}

}  // namespace saccade
