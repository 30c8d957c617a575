#include "core/kernels/linear/linear.h"

#include "core/kernels/common/gemm.h"

namespace saccade::kernels {
namespace {

void forward_generic(const Tensor& x, const Tensor& w, const Tensor& bias, Activation act, Tensor& y) {
  dispatch_float(x.dtype(), "linear", [&]<class T>() {
    Tensor out = y.unsqueeze(0), transposed = w.transpose(0, 1).unsqueeze(0);
    const acc_t<T>* b = data_or_null<acc_t<T>>(bias);
    if (y.dtype() == x.dtype())
      gemm<T, T>(x.unsqueeze(0), transposed, out, b, act);
    else
      gemm<T, acc_t<T>>(x.unsqueeze(0), transposed, out, b, act);
  });
}

void backward_data_generic(const Tensor& dz, const Tensor& w, Tensor& dx) {
  dispatch_float(dz.dtype(), "linear", [&]<class T>() {
    Tensor out = dx.unsqueeze(0);
    gemm<T, T>(dz.unsqueeze(0), w.unsqueeze(0), out);
  });
}

void backward_weight_generic(const Tensor& dz, const Tensor& x, Tensor& dw) {
  dispatch_float(dz.dtype(), "linear", [&]<class T>() {
    Tensor out = dw.unsqueeze(0);
    gemm<T, acc_t<T>>(dz.transpose(0, 1).unsqueeze(0), x.unsqueeze(0), out);
  });
}

SACCADE_REGISTER_KERNEL(linear_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(linear_backward_data, &backward_data_generic);
SACCADE_REGISTER_KERNEL(linear_backward_weight, &backward_weight_generic);

}  // namespace
}  // namespace saccade::kernels
