// The linear layer's products through cuBLASLt, which adds the bias and applies ReLU before it stores the
// result. The gradient of the activation and the sums of the bias gradient take one pass over dz, see
// activation_backward.
#include "core/kernels/linear/linear_cuda.h"

#include "core/kernels/bf16_shadow/bf16_shadow.h"
#include "core/kernels/linear/linear.h"
#include "core/runtime/cuda/libraries/cublaslt.h"

namespace saccade::kernels {
namespace {

using cuda::Matrices;

Matrices matrix(const Tensor& t) { return {t.raw(), t.dtype(), t.dim(0), t.dim(1), false, t.dim(1)}; }
Matrices transposed(const Tensor& t) { return {t.raw(), t.dtype(), t.dim(1), t.dim(0), true, t.dim(1)}; }

// cuBLASLt adds a bias of the result's dtype: in bf16 it is rounded, as the weights are.
Tensor bias_for(const Tensor& y, const Tensor& bias) {
  return bias.defined() && y.dtype() == DType::kBF16 ? in_bf16(bias) : bias;
}

void forward_cuda(const Tensor& x, const Tensor& w, const Tensor& bias, Activation act, Tensor& y) {
  if (!cuda::product(1, matrix(x), transposed(w), matrix(y), bias_for(y, bias), act == Activation::kRelu))
    linear_forward.generic(x, w, bias, act, y);
}

void backward_data_cuda(const Tensor& dz, const Tensor& w, Tensor& dx) {
  if (!cuda::product(1, matrix(dz), matrix(w), matrix(dx))) linear_backward_data.generic(dz, w, dx);
}

void backward_weight_cuda(const Tensor& dz, const Tensor& x, Tensor& dw) {
  if (!cuda::product(1, transposed(dz), matrix(x), matrix(dw))) linear_backward_weight.generic(dz, x, dw);
}

SACCADE_REGISTER_TUNED_KERNEL(linear_forward, Device::kCuda, &forward_cuda, &takes_full_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(linear_backward_data, Device::kCuda, &backward_data_cuda,
                              &takes_full_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(linear_backward_weight, Device::kCuda, &backward_weight_cuda,
                              &takes_full_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels

namespace saccade::cuda {

bool linear_add_relu(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& residual,
                     Tensor& y) {
  using namespace kernels;
  return product(1, matrix(x), transposed(w), matrix(y), bias_for(y, bias), true, residual.raw());
}

}  // namespace saccade::cuda
