// GELU and its gradient, sixteen numbers at a time; the other activations are left to the generic kernels,
// which compilers vectorise well. The normal distribution's tail and density share one exponential.
#include "core/kernels/activation.h"

#include "core/cpu/vector.h"
#include "core/kernels/columns.h"
#include "core/parallel.h"

namespace saccade::kernels {
namespace {

using namespace cpu;

constexpr float kDensity = 0.39894228040143267794f;  // 1 / sqrt(2 pi)

// E = e^(-z^2 / 2), and the distribution's tail below -|z|: half of erfc(|z| / sqrt(2)), by Abramowitz and
// Stegun 7.1.26 with an error below 1e-7.
struct Normal {
  Floats exponential, tail;
  explicit Normal(Floats z) {
    Floats size = select(z < 0.0f, Floats{} - z, z);
    Floats t = 1.0f / (size * (0.3275911f * 0.70710678118654752440f) + 1.0f);
    exponential = cpu::exp(z * z * -0.5f);
    Floats p = t * 1.061405429f + -1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t + -0.284496736f;
    p = p * t + 0.254829592f;
    tail = p * t * exponential * 0.5f;
  }
};

Floats gelu(Floats z) {
  Normal n(z);
  return z * select(z < 0.0f, n.tail, 1.0f - n.tail);
}

Floats gelu_slope(Floats z) {
  Normal n(z);
  return select(z < 0.0f, n.tail, 1.0f - n.tail) + z * n.exponential * kDensity;
}

template <class T>
void forward_typed(const T* z, T* y, int64_t count) {
  constexpr int64_t kChunk = 4096;
  parallel_for((count + kChunk - 1) / kChunk, 2, [&](int64_t begin, int64_t end) {
    int64_t i = begin * kChunk, last = std::min(end * kChunk, count);
    for (; i + kLanes <= last; i += kLanes) store(y + i, gelu(load(z + i)));
    if (i < last) store_some(y + i, gelu(load_some(z + i, last - i)), last - i);
  });
}

// Rows [r0, r1) of columns [first, first + width), width <= kTileColumns; their sums go to `partial`.
template <class T>
void backward_tile(const T* dy, const T* z, T* dz, float* partial, int64_t r0, int64_t r1, int64_t first,
                   int64_t width, int64_t columns) {
  constexpr int64_t kVectors = kTileColumns / kLanes;
  Floats sums[kVectors] = {};
  for (int64_t r = r0; r < r1; ++r) {
    int64_t at = r * columns + first;
    int64_t v = 0;
    for (; (v + 1) * kLanes <= width; ++v) {
      int64_t i = at + v * kLanes;
      Floats g = load(dy + i) * gelu_slope(load(z + i));
      if (dz) store(dz + i, g);
      sums[v] += g;
    }
    if (int64_t rest = width - v * kLanes; rest > 0) {
      int64_t i = at + v * kLanes;
      Floats g = load_some(dy + i, rest) * gelu_slope(load_some(z + i, rest));
      if (dz) store_some(dz + i, g, rest);
      sums[v] += g;
    }
  }
  if (!partial) return;
  for (int64_t v = 0; v * kLanes < width; ++v)
    store_some(partial + v * kLanes, sums[v], std::min<int64_t>(kLanes, width - v * kLanes));
}

template <class T>
void backward_typed(const Tensor& dy, const Tensor& z, Tensor& dz, Tensor& bias_grad) {
  int64_t rows = dy.dim(0), columns = dy.dim(1), per = tile_columns(columns);
  Tensor partial = bias_grad.defined() ? Tensor::empty({tile_rows(rows), columns}) : Tensor();
  parallel_for(tile_rows(rows) * per, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t block = i / per, first = i % per * kTileColumns;
      backward_tile(dy.data<T>(), z.data<T>(), dz.defined() ? dz.data<T>() : nullptr,
                    partial.defined() ? partial.data<float>() + block * columns + first : nullptr,
                    block * kTileRows, std::min(rows, (block + 1) * kTileRows), first,
                    std::min(kTileColumns, columns - first), columns);
    }
  });
  if (bias_grad.defined())
    sum_partials(partial.data<float>(), bias_grad.data<float>(), 1, tile_rows(rows), columns);
}

void forward_cpu(Activation act, const Tensor& z, Tensor& y) {
  if (act != Activation::kGelu || z.dtype() == DType::kF64) return activation_forward.generic(act, z, y);
  if (z.dtype() == DType::kBF16) {
    forward_typed(z.data<bf16>(), y.data<bf16>(), z.numel());
  } else {
    forward_typed(z.data<float>(), y.data<float>(), z.numel());
  }
}

void backward_cpu(Activation act, const Tensor& dy, const Tensor& saved, Tensor& dz, Tensor& bias_grad) {
  if (act != Activation::kGelu || dy.dtype() == DType::kF64 || dy.numel() == 0)
    return activation_backward.generic(act, dy, saved, dz, bias_grad);
  if (dy.dtype() == DType::kBF16) {
    backward_typed<bf16>(dy, saved, dz, bias_grad);
  } else {
    backward_typed<float>(dy, saved, dz, bias_grad);
  }
}

SACCADE_REGISTER_TUNED_KERNEL(activation_forward, Device::kCpu, &forward_cpu);
SACCADE_REGISTER_TUNED_KERNEL(activation_backward, Device::kCpu, &backward_cpu);

}  // namespace
}  // namespace saccade::kernels
