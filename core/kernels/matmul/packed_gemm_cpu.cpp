#include "core/kernels/matmul/packed_gemm_cpu.h"

#include "core/kernels/matmul/packed_product_cpu.h"
#include "core/runtime/kernel.h"

namespace saccade::cpu {
namespace {

template <class T>
PackedMatrix<T> matrix_of(const Tensor& t, int64_t i) {
  return {t.data<T>() + (t.dim(0) == 1 ? 0 : i * t.strides()[0]), t.strides()[1], t.strides()[2]};
}

template <class T, class C>
void product(const Tensor& a, const Tensor& b, Tensor& c, const Tensor& bias, Activation act, float shift) {
  run_packed(c.dim(0), [&](int64_t i) {
    return PackedProduct<PackedMatrix<T>, PackedMatrix<T>, C>{matrix_of<T>(a, i),
                                                              matrix_of<T>(b, i),
                                                              c.data<C>() + i * c.dim(1) * c.dim(2),
                                                              c.dim(1),
                                                              c.dim(2),
                                                              a.dim(2),
                                                              data_or_null<float>(bias),
                                                              act == Activation::kRelu,
                                                              shift};
  });
}

}  // namespace

void packed_gemm(const Tensor& a, const Tensor& b, Tensor& c, const Tensor& bias, Activation act,
                 float shift) {
  dispatch_dtype<float, bf16>(a.dtype(), "packed_gemm", [&]<class T>() {
    if (c.dtype() == a.dtype())
      product<T, T>(a, b, c, bias, act, shift);
    else
      product<T, float>(a, b, c, bias, act, shift);
  });
}

}  // namespace saccade::cpu
