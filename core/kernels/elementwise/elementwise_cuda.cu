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

// f32 and bf16 alone: the model computes in nothing else.
template <class F>
void with_type(DType dtype, const F& f) {
  dtype == DType::kF32 ? f.template operator()<float>() : f.template operator()<bf16>();
}

void binary_cuda(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) {
  if (y.dtype() == DType::kF64 || y.numel() == 0 || !y.is_contiguous()) return binary.generic(op, a, b, y);
  Shape sa = strides_in(a, y), sb = strides_in(b, y);
  auto loop = StridedLoop<3>::make(y.shape(), {&y.strides(), &sa, &sb});
  with_type(y.dtype(), [&]<class T>() {
    with_binary_op(op, [&]<class Op>() {
      if (!launch_map_strided(loop, Rounded<T, Op>{}, y.data<T>(), a.data<T>(), b.data<T>()))
        binary.generic(op, a, b, y);
    });
  });
}

void binary_backward_cuda(BinaryOp op, int side, const Tensor& dy, const Tensor& a, const Tensor& b,
                          Tensor& dx) {
  if (dx.dtype() == DType::kF64 || dx.numel() == 0 || !dx.is_contiguous())
    return binary_backward.generic(op, side, dy, a, b, dx);
  Shape sy = strides_in(dy, dx), sa = strides_in(a, dx), sb = strides_in(b, dx);
  auto loop = StridedLoop<4>::make(dx.shape(), {&dx.strides(), &sy, &sa, &sb});
  with_type(dx.dtype(), [&]<class T>() {
    with_binary_backward(op, side, [&]<class Op>() {
      if (!launch_map_strided(loop, Rounded<T, Op>{}, dx.data<T>(), dy.data<T>(), a.data<T>(), b.data<T>()))
        binary_backward.generic(op, side, dy, a, b, dx);
    });
  });
}

void masked_fill_cuda(const Tensor& x, const Tensor& mask, double value, Tensor& y) {
  if (y.dtype() == DType::kF64 || y.numel() == 0 || !y.is_contiguous())
    return masked_fill.generic(x, mask, value, y);
  Shape sx = strides_in(x, y), sm = strides_in(mask, y);
  auto loop = StridedLoop<3>::make(y.shape(), {&y.strides(), &sx, &sm});
  with_type(y.dtype(), [&]<class T>() {
    if (!launch_map_strided(loop, Masked<T>{T(value)}, y.data<T>(), x.data<T>(), mask.data<bool>()))
      masked_fill.generic(x, mask, value, y);
  });
}

SACCADE_REGISTER_TUNED_KERNEL(binary, Device::kCuda, &binary_cuda);
SACCADE_REGISTER_TUNED_KERNEL(binary_backward, Device::kCuda, &binary_backward_cuda);
SACCADE_REGISTER_TUNED_KERNEL(masked_fill, Device::kCuda, &masked_fill_cuda);

}  // namespace
}  // namespace saccade::kernels
