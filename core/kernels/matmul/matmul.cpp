#include "core/kernels/matmul/matmul.h"

#include "core/kernels/common/gemm.h"

namespace saccade::kernels {
namespace {

void matmul_generic(const Tensor& a, const Tensor& b, Tensor& c) {
  dispatch_float(a.dtype(), "matmul", [&]<class T>() {
    if (c.dtype() == a.dtype())
      gemm<T, T>(a, b, c);
    else
      gemm<T, acc_t<T>>(a, b, c);
  });
}

SACCADE_REGISTER_KERNEL(matmul, &matmul_generic);

}  // namespace
}  // namespace saccade::kernels
