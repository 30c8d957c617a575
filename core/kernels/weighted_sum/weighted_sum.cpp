#include "core/kernels/weighted_sum/weighted_sum.h"

#include <algorithm>

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr size_t kAtOnce = 128;  // limited by the size of a kernel's arguments

template <class T>
struct WeightedParts {
  const T* numbers[kAtOnce];
  T factors[kAtOnce];
  T* parts;
  SACCADE_HD void operator()(int64_t i) const { parts[i] = *numbers[i] * factors[i]; }
};

// A separate pass: in one pass with the products, the sum would not round them.
template <class T>
struct SumInOrder {  // one index
  const T* parts;
  T* total;
  int64_t n;
  SACCADE_HD void operator()(int64_t) const {
    T sum = n > 0 ? parts[0] : T(0);
    for (int64_t i = 1; i < n; ++i) sum += parts[i];
    *total = sum;
  }
};

template <class T>
struct ScaledFactors {
  T factors[kAtOnce];
  const T* scale;
  T* out;
  SACCADE_HD void operator()(int64_t i) const { out[i] = factors[i] * *scale; }
};

// Calls f(begin, count, factors) for up to kAtOnce terms at a time.
template <class T, class F>
void for_terms(std::span<const double> factors, const F& f) {
  for (size_t begin = 0; begin < factors.size(); begin += kAtOnce) {
    const size_t n = std::min(kAtOnce, factors.size() - begin);
    T some[kAtOnce] = {};
    for (size_t i = 0; i < n; ++i) some[i] = static_cast<T>(factors[begin + i]);
    f(begin, n, some);
  }
}

void forward_generic(std::span<const Tensor> numbers, std::span<const double> factors, Tensor& parts,
                     Tensor& total) {
  SACCADE_CHECK(
      numbers.size() == factors.size() && parts.numel() == std::ssize(numbers) && total.numel() == 1,
      "[weighted_sum] {} numbers, {} factors, {} parts", numbers.size(), factors.size(), parts.numel());
  dispatch_dtype<float, double>(total.dtype(), "weighted_sum", [&]<class T>() {
    for_terms<T>(factors, [&](size_t begin, size_t n, const T* some) {
      WeightedParts<T> f{};
      f.parts = parts.data<T>() + begin;
      std::copy_n(some, n, f.factors);
      for (size_t i = 0; i < n; ++i) f.numbers[i] = numbers[begin + i].data<T>();
      for_each(static_cast<int64_t>(n), f);
    });
    for_each(1, SumInOrder<T>{parts.data<T>(), total.data<T>(), parts.numel()});
  });
}

void backward_generic(const Tensor& dtotal, std::span<const double> factors, Tensor& out) {
  dispatch_dtype<float, double>(dtotal.dtype(), "weighted_sum", [&]<class T>() {
    for_terms<T>(factors, [&](size_t begin, size_t n, const T* some) {
      ScaledFactors<T> f{};
      std::copy_n(some, n, f.factors);
      f.scale = dtotal.data<T>();
      f.out = out.data<T>() + begin;
      for_each(static_cast<int64_t>(n), f);
    });
  });
}

SACCADE_REGISTER_KERNEL(weighted_sum_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(weighted_sum_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
