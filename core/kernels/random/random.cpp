#include "core/kernels/random/random.h"

#include "core/runtime/launch.h"
#include "core/tensor/philox.h"

namespace saccade::kernels {
namespace {

template <class T>
struct Dropout {
  using A = acc_t<T>;
  const T* x;
  T* y;
  int64_t n;
  uint64_t key, call, first;
  float p;
  A scale;
  SACCADE_HD void operator()(int64_t group) const {
    Philox bits = Philox::generate(key, call, first / 4 + static_cast<uint64_t>(group));
    for (int j = 0; j < 4; ++j) {
      int64_t i = 4 * group + j;
      if (i < n) y[i] = uniform_from_bits(bits.x[j]) < p ? T(A(0)) : T(A(x[i]) * scale);
    }
  }
};

template <class T>
struct DropPath {
  using A = acc_t<T>;
  const T* x;
  T* y;
  int64_t size;  // elements per sample
  uint64_t key, call, first;
  float p;
  A scale;
  SACCADE_HD void operator()(int64_t sample) const {
    const uint64_t i = first + static_cast<uint64_t>(sample);
    uint32_t bits = Philox::generate(key, call, i / 4).x[i % 4];
    A factor = uniform_from_bits(bits) < p ? A(0) : scale;
    const T* from = x + sample * size;
    T* to = y + sample * size;
    for (int64_t j = 0; j < size; ++j) to[j] = T(factor == A(0) ? A(0) : A(from[j]) * factor);
  }
};

double keep_scale(double p) { return p < 1 ? 1 / (1 - p) : 0; }

void dropout_generic(const Tensor& x, double p, uint64_t key, uint64_t call, uint64_t first, Tensor& y) {
  dispatch_float(x.dtype(), "dropout", [&]<class T>() {
    for_each(ceil_div(x.numel(), 4),
             Dropout<T>{x.data<T>(), y.data<T>(), x.numel(), key, call, first, static_cast<float>(p),
                        acc_t<T>(keep_scale(p))},
             16);
  });
}

void drop_path_generic(const Tensor& x, double p, uint64_t key, uint64_t call, uint64_t first, Tensor& y) {
  if (x.numel() == 0) return;
  dispatch_float(x.dtype(), "drop_path", [&]<class T>() {
    int64_t size = x.numel() / x.dim(0);
    for_each(x.dim(0),
             DropPath<T>{x.data<T>(), y.data<T>(), size, key, call, first, static_cast<float>(p),
                         acc_t<T>(keep_scale(p))},
             size);
  });
}

SACCADE_REGISTER_KERNEL(dropout, &dropout_generic);
SACCADE_REGISTER_KERNEL(drop_path, &drop_path_generic);

}  // namespace
}  // namespace saccade::kernels
