// GELU for f32 and bf16: the value and its slope from one exponential,
//   Phi(x) = 1 - q for x >= 0 and q for x < 0, q = erfc(|x| / sqrt 2) / 2 = P(t) e^(-x^2 / 2),
//   t = 1 / (1 + p |x|)
// (Abramowitz and Stegun 7.1.26, with an error of erf of 1.5e-7).
#include "core/kernels/activation/activation.h"

#include "core/kernels/common/vector_cpu.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

using namespace cpu;

struct Gelu {
  Floats value, slope;

  explicit Gelu(Floats x) {
    Floats t = broadcast(1.0f) / (max(x, Floats{} - x) * 0.231641892f + 1.0f);
    Floats e = cpu::exp(x * x * -0.5f);
    Floats p = t * 0.530702715f - 0.726576015f;
    p = p * t + 0.710706870f;
    p = p * t - 0.142248368f;
    p = p * t + 0.127414796f;
    Floats tail = p * t * e;
    Floats phi = select(x < 0.0f, tail, broadcast(1.0f) - tail);
    value = x * phi;
    slope = phi + x * e * 0.398942280f;
  }
};

template <class T>
void gelu(const T* z, T* y, T* slope, int64_t n) {
  parallel_for(ceil_div(n, kLanes), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * kLanes; i < std::min(end * kLanes, n); i += kLanes) {
      int64_t count = std::min<int64_t>(kLanes, n - i);
      Gelu g(count == kLanes ? load(z + i) : load_some(z + i, count));
      if (count == kLanes) {
        store(y + i, g.value);
        if (slope) store(slope + i, g.slope);
      } else {
        store_some(y + i, g.value, count);
        if (slope) store_some(slope + i, g.slope, count);
      }
    }
  });
}

void forward_cpu(Activation act, const Tensor& z, Tensor& y, Tensor& slope) {
  if (act != Activation::kGelu || z.dtype() == DType::kF64) {
    activation_forward.generic(act, z, y, slope);
  } else if (z.dtype() == DType::kBF16) {
    gelu(z.data<bf16>(), y.data<bf16>(), data_or_null<bf16>(slope), z.numel());
  } else {
    gelu(z.data<float>(), y.data<float>(), data_or_null<float>(slope), z.numel());
  }
}

SACCADE_REGISTER_TUNED_KERNEL(activation_forward, Device::kCpu, &forward_cpu);

}  // namespace
}  // namespace saccade::kernels
