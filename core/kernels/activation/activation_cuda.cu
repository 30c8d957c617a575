// Activations in packs. The backward with a bias gradient stores dz as it sums the columns.
#include "core/kernels/activation/activation.h"

#include "core/kernels/common/column_tiles_cuda.h"
#include "core/kernels/copy/copy.h"
#include "core/runtime/cuda/map.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

template <class F, class T>
struct Activate {
  SACCADE_HD T operator()(T z) const {
    float slope = 0;
    return T(value_and_slope<F>(static_cast<float>(z), slope));
  }
};
template <class F, class T>
struct Gradient {
  SACCADE_HD T operator()(T dy, T saved) const {
    return T(gradient_of_saved<F>(static_cast<float>(saved), static_cast<float>(dy)));
  }
};

template <class F, class T, int kPack>
__global__ void __launch_bounds__(kMapThreads) activate_with_slope(int64_t n, const T* z, T* y, T* slope) {
  int64_t i = (static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x) * kPack;
  if (i >= n) return;
  auto a = load_pack<kPack>(z + i), s = a;
  for (int j = 0; j < kPack; ++j) {
    float d = 0;
    a.x[j] = T(value_and_slope<F>(static_cast<float>(a.x[j]), d));
    s.x[j] = T(d);
  }
  store_pack<kPack>(y + i, a);
  store_pack<kPack>(slope + i, s);
}

template <class F, class T, class Z, int kPack>
struct BackwardColumns {
  const T *dy, *saved;
  Z* dz;  // may be null
  int64_t columns;
  __device__ BackwardColumns at(int64_t, int64_t c) const {
    return {dy + c, saved ? saved + c : nullptr, dz ? dz + c : nullptr, columns};
  }
  __device__ void operator()(int64_t r, float (&sum)[1][kPack]) const {
    auto g = load_pack<kPack>(dy + r * columns);
    Pack<T, kPack> s{};
    if constexpr (!is_identity<F>) s = load_pack<kPack>(saved + r * columns);
    Pack<Z, kPack> z;
    for (int j = 0; j < kPack; ++j) {
      float d = gradient_of_saved<F>(static_cast<float>(s.x[j]), static_cast<float>(g.x[j]));
      sum[0][j] += d;
      z.x[j] = Z(d);
    }
    if (dz) store_pack<kPack>(dz + r * columns, z);
  }
};

template <class Visit>
void with_types(Activation act, DType dtype, const Visit& visit) {
  with_activation(act, [&]<class F>() {
    dtype == DType::kF32 ? visit.template operator()<F, float>() : visit.template operator()<F, bf16>();
  });
}

void forward_cuda(Activation act, const Tensor& z, Tensor& y, Tensor& slope) {
  if (z.dtype() == DType::kF64) return activation_forward.generic(act, z, y, slope);
  if (z.numel() == 0) return;
  with_types(act, z.dtype(), [&]<class F, class T>() {
    if (F::kFromValue || !slope.defined())
      return map_each(z.numel(), Activate<F, T>{}, y.data<T>(), z.data<T>());
    constexpr int kWidth = kPackWidth<T>;
    auto fits = [&](const T* p) { return packs_fit<kWidth>(p, z.numel()); };
    const bool packs = fits(z.data<T>()) && fits(y.data<T>()) && fits(slope.data<T>());
    with_packs<kWidth>(packs, [&]<int kPack>() {
      launch("activate_with_slope", &activate_with_slope<F, T, kPack>,
             {ceil_div(z.numel() / kPack, kMapThreads), kMapThreads}, z.numel(), z.data<T>(), y.data<T>(),
             slope.data<T>());
    });
  });
}

template <class F, class T, class Z>
void sum_bias_gradient(const Tensor& dy, const T* saved, Z* dz, Tensor& bias_grad) {
  const T* pd = dy.data<T>();
  int64_t columns = dy.dim(1);
  constexpr int kWidth = kPackWidth<T>;
  const bool packs =
      packs_fit<kWidth>(pd, columns) && packs_fit<kWidth>(saved, columns) && packs_fit<kWidth>(dz, columns);
  with_packs<kWidth>(packs, [&]<int kPack>() {
    sum_columns<kPack, 1>(ColumnTiles(1, dy.dim(0), columns, kPack),
                          BackwardColumns<F, T, Z, kPack>{pd, saved, dz, columns}, 1.0,
                          bias_grad.data<float>());
  });
}

void backward_cuda(Activation act, const Tensor& dy, const Tensor& saved, Tensor& dz, Tensor& bias_grad) {
  if (dy.dtype() == DType::kF64 || dy.numel() == 0)
    return activation_backward.generic(act, dy, saved, dz, bias_grad);
  if (dz.defined() && dz.dtype() != dy.dtype()) {
    if (act != Activation::kNone) return activation_backward.generic(act, dy, saved, dz, bias_grad);
    if (!bias_grad.defined()) return copy(dy, dz);
    return sum_bias_gradient<Identity, float>(dy, dy.data<float>(), dz.data<bf16>(), bias_grad);
  }
  with_types(act, dy.dtype(), [&]<class F, class T>() {
    const T *pd = dy.data<T>(), *ps = is_identity<F> ? pd : saved.data<T>();
    T* out = data_or_null<T>(dz);
    if (!bias_grad.defined()) {
      if (out) map_each(dy.numel(), Gradient<F, T>{}, out, pd, ps);
      return;
    }
    sum_bias_gradient<F>(dy, ps, out, bias_grad);
  });
}

SACCADE_REGISTER_TUNED_KERNEL(activation_forward, Device::kCuda, &forward_cuda);
SACCADE_REGISTER_TUNED_KERNEL(activation_backward, Device::kCuda, &backward_cuda);

}  // namespace
}  // namespace saccade::kernels
