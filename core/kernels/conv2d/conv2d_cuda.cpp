// Convolutions on the GPU: 1x1 ones are matrix products (strided ones over the pixels that they read),
// depthwise ones have separate kernels, the others go to cuDNN. Those without a reproducible cuDNN engine use
// the generic kernel.
#include "core/kernels/conv2d/conv2d.h"

#include "core/kernels/bf16_shadow/bf16_shadow.h"
#include "core/kernels/conv2d/conv2d_as_product.h"
#include "core/kernels/conv2d/conv2d_cuda_kernels.h"
#include "core/kernels/conv2d/conv2d_cuda_plan.h"
#include "core/kernels/linear/linear_cuda.h"
#include "core/runtime/cuda/libraries/library.h"
#include "core/runtime/recording.h"

namespace saccade::kernels {
namespace {

// Returns weights as [O, R, S, C / groups].
Tensor channels_last(const Tensor& w) { return w.permute({0, 2, 3, 1}).contiguous(); }

cuda::ConvProblem problem_of(cuda::ConvPass pass, const Tensor& x, const Shape& w, const Tensor& y,
                             const ConvParams& p) {
  cuda::ConvProblem q{};
  q.pass = pass;
  q.dtype = x.dtype();
  q.math = x.dtype() == DType::kF32 ? execution().math : MathMode::kExact;
  q.N = x.dim(0), q.H = x.dim(1), q.W = x.dim(2), q.C = x.dim(3);
  q.O = w[0], q.R = w[2], q.S = w[3], q.OH = y.dim(1), q.OW = y.dim(2);
  q.p = p;
  return q;
}

// Runs the plan, if there is one. Tensors that begin at an address that no plan may access, such as a level's
// part of the rows of all levels, go through a copy.
bool run(const cuda::ConvProblem& q, const Tensor& x, const Tensor& w, const Tensor& y,
         const Tensor& bias = {}, const Tensor& residual = {}) {
  auto plan = cuda::conv_plan(q);
  if (!*plan) return false;
  if (auto* kept = kept_for_recording()) kept->push_back(plan);
  const Tensor& result = q.pass == cuda::ConvPass::kForward ? y : q.pass == cuda::ConvPass::kData ? x : w;
  Tensor written = result;
  auto placed = [&](const Tensor& t) {
    if (!t.defined() || reinterpret_cast<uintptr_t>(t.raw()) % cuda::kConvAlignment == 0) return t;
    return &t == &result ? written = t.empty_like() : t.clone();
  };
  const Tensor px = placed(x), pw = placed(w), py = placed(y), pb = placed(bias), pr = placed(residual);
  auto at = [](const Tensor& t) { return t.defined() ? t.raw() : nullptr; };
  (*plan)->run({px.raw(), pw.raw(), py.raw(), at(pb), at(pr)});
  if (Tensor out = result; written.raw() != out.raw()) out.copy_from(written);
  return true;
}

// Returns the pixels of x that a strided 1x1 convolution reads, one for each of y's.
Tensor pixels_read(const Tensor& x, const Tensor& y, int64_t stride) {
  Tensor picked = Tensor::empty({x.dim(0), y.dim(1), y.dim(2), x.dim(3)}, x.dtype(), x.device());
  cuda::pick_pixels(x, stride, picked);
  return picked;
}

void note(const char* name, const Tensor& x, const Shape& w, const ConvParams& p) {
  cuda::note_slow_path(fmt::format("{} of {} {} by {}, stride {}, dilation {}, groups {}", name, x.dtype(),
                                   x.shape(), w, p.stride, p.dilation, p.groups));
}

// y = act(convolution + bias), or with a residual act(convolution + residual + bias), by cuDNN: in one step
// if it has an engine for that, otherwise in two. Returns false if it has none for the convolution itself.
bool run_cudnn(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& residual,
               const ConvParams& p, Activation act, Tensor& y) {
  auto q = problem_of(cuda::ConvPass::kForward, x, w.shape(), y, p);
  const Tensor packed = channels_last(w);
  q.bias = bias.defined(), q.residual = residual.defined(), q.relu = act == Activation::kRelu;
  // Engines add a bias of the result's dtype: in bf16 it is rounded, as the weights are.
  const Tensor added = q.bias && q.dtype == DType::kBF16 ? in_bf16(bias) : bias;
  // Without a bias nothing is fused, and the library would take 200 ms to say so
  // (tests/cudnn/conv_plans.cpp).
  if ((q.bias || !q.fuses()) && run(q, x, packed, y, added, residual)) return true;
  if (!q.fuses()) return false;
  q.bias = q.residual = q.relu = false;
  if (!run(q, x, packed, y)) return false;
  cuda::conv_epilogue(bias, residual, act, y);
  return true;
}

void forward_cuda(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvParams& p, Activation act,
                  Tensor& y) {
  if (is_product(w.shape(), p)) return forward_as_product(x, w, bias, act, y);
  if (is_strided_product(w.shape(), p))
    return forward_as_product(pixels_read(x, y, p.stride), w, bias, act, y);
  if (cuda::is_depthwise(w.shape(), p)) return cuda::depthwise_forward(x, w, bias, p, act, y);
  if (run_cudnn(x, w, bias, {}, p, act, y)) return;
  note("conv2d_forward", x, w.shape(), p);
  conv2d_forward.generic(x, w, bias, p, act, y);
}

void add_relu_cuda(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& residual,
                   const ConvParams& p, Tensor& y) {
  if (is_product(w.shape(), p)) {
    Tensor rows = pixels(y);
    if (cuda::linear_add_relu(pixels(x), matrix(w), bias, pixels(residual), rows)) return;
  } else if (!is_strided_product(w.shape(), p) && !cuda::is_depthwise(w.shape(), p)) {
    if (run_cudnn(x, w, bias, residual, p, Activation::kRelu, y)) return;
  }
  conv2d_add_relu.generic(x, w, bias, residual, p, y);
}

void backward_data_cuda(const Tensor& dy, const Tensor& w, const ConvParams& p, Tensor& dx) {
  if (is_product(w.shape(), p)) return backward_data_as_product(dy, w, dx);
  if (is_strided_product(w.shape(), p)) {
    Tensor picked = Tensor::empty({dy.dim(0), dy.dim(1), dy.dim(2), dx.dim(3)}, dx.dtype(), dx.device());
    backward_data_as_product(dy, w, picked);
    return cuda::spread_pixels(picked, p.stride, dx);
  }
  if (cuda::is_depthwise(w.shape(), p)) return cuda::depthwise_backward_data(dy, w, p, dx);
  if (run(problem_of(cuda::ConvPass::kData, dx, w.shape(), dy, p), dx, channels_last(w), dy)) return;
  note("conv2d_backward_data", dx, w.shape(), p);
  conv2d_backward_data.generic(dy, w, p, dx);
}

void backward_weight_cuda(const Tensor& dy, const Tensor& x, const ConvParams& p, Tensor& dw) {
  if (is_product(dw.shape(), p)) return backward_weight_as_product(dy, x, dw);
  if (is_strided_product(dw.shape(), p))
    return backward_weight_as_product(dy, pixels_read(x, dy, p.stride), dw);
  if (cuda::is_depthwise(dw.shape(), p)) return cuda::depthwise_backward_weight(dy, x, p, dw);
  // No engine writes f32 sums of bf16 products: the sums are f32, and the result is rounded to bf16 once and
  // then widened.
  Tensor packed = Tensor::empty({dw.dim(0), dw.dim(2), dw.dim(3), dw.dim(1)}, x.dtype(), dw.device());
  if (!run(problem_of(cuda::ConvPass::kWeight, x, dw.shape(), dy, p), x, packed, dy)) {
    note("conv2d_backward_weight", x, dw.shape(), p);
    return conv2d_backward_weight.generic(dy, x, p, dw);
  }
  dw.copy_from(packed.permute({0, 3, 1, 2}));
}

SACCADE_REGISTER_TUNED_KERNEL(conv2d_forward, Device::kCuda, &forward_cuda, &takes_small_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_add_relu, Device::kCuda, &add_relu_cuda, &takes_small_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_backward_data, Device::kCuda, &backward_data_cuda,
                              &takes_small_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_backward_weight, Device::kCuda, &backward_weight_cuda,
                              &takes_small_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
