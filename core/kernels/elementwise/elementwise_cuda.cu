// Elementwise kernels of two and three tensors with broadcasting, in packs; see core/kernels/common/map_strided_cuda.h.
#include "core/kernels/common/map_strided_cuda.h"
#include "core/kernels/elementwise/elementwise_ops.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

// Computes in the type that T accumulates in.
template <class T, class Op>
struct Rounded {
  template <class... X>
  SACCADE_HD T operator()(X... x) const {
    return T(Op()(acc_t<T>(x)...));
  }
};

template <class T>
struct Masked {
  T value;
  SACCADE_HD T operator()(T x, bool mask) const { return mask ? value : x; }
};

void binary_cuda(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) {
  Shape sa = strides_in(a, y), sb = strides_in(b, y);
  auto loop = StridedLoop<3>::make(y.shape(), {&y.strides(), &sa, &sb});
  dispatch_dtype<float, bf16>(y.dtype(), "binary", [&]<class T>() {
    with_binary_op(op, [&]<class Op>() {
      launch_map_strided(loop, Rounded<T, Op>{}, y.data<T>(), a.data<T>(), b.data<T>());
    });
  });
}

void binary_backward_cuda(BinaryOp op, int side, const Tensor& dy, const Tensor& a, const Tensor& b,
                          Tensor& dx) {
  Shape sy = strides_in(dy, dx), sa = strides_in(a, dx), sb = strides_in(b, dx);
  auto loop = StridedLoop<4>::make(dx.shape(), {&dx.strides(), &sy, &sa, &sb});
  dispatch_dtype<float, bf16>(dx.dtype(), "binary", [&]<class T>() {
    with_binary_backward(op, side, [&]<class Op>() {
      launch_map_strided(loop, Rounded<T, Op>{}, dx.data<T>(), dy.data<T>(), a.data<T>(), b.data<T>());
    });
  });
}

void masked_fill_cuda(const Tensor& x, const Tensor& mask, double value, Tensor& y) {
  Shape sx = strides_in(x, y), sm = strides_in(mask, y);
  auto loop = StridedLoop<3>::make(y.shape(), {&y.strides(), &sx, &sm});
  dispatch_dtype<float, bf16>(y.dtype(), "masked_fill", [&]<class T>() {
    launch_map_strided(loop, Masked<T>{T(value)}, y.data<T>(), x.data<T>(), mask.data<bool>());
  });
}

// The result, the last argument, is contiguous, of f32 or bf16 and small enough.
template <class... A>
bool supported(const A&... args) {
  const Tensor& y = std::get<sizeof...(A) - 1>(std::tie(args...));
  return takes_f32_or_bf16(y) && y.is_contiguous() && map_fits(y);
}

SACCADE_REGISTER_TUNED_KERNEL(binary, Device::kCuda, &binary_cuda, &supported);
SACCADE_REGISTER_TUNED_KERNEL(binary_backward, Device::kCuda, &binary_backward_cuda, &supported);
SACCADE_REGISTER_TUNED_KERNEL(masked_fill, Device::kCuda, &masked_fill_cuda, &supported);

}  // namespace
}  // namespace saccade::kernels
