// Activations in packs. The backward with a bias gradient stores dz while it sums the columns.
#include "core/kernels/activation/activation.h"

#include "core/kernels/activation/activation_math.h"
#include "core/kernels/common/columns_cuda.h"
#include "core/runtime/cuda/map.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

template <Activation Act, class T>
struct Activate {
  SACCADE_HD T operator()(T z) const {
    float slope = 0;
    return T(activate<Act>(static_cast<float>(z), slope));
  }
};
template <Activation Act, class T>
struct Slope {
  SACCADE_HD T operator()(T dy, T saved) const {
    return T(activation_grad<Act>(static_cast<float>(dy), static_cast<float>(saved)));
  }
};

template <class T, int kPack>
__global__ void __launch_bounds__(kMapThreads) gelu_with_slope(int64_t n, const T* z, T* y, T* slope) {
  int64_t i = (static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x) * kPack;
  if (i >= n) return;
  auto a = load_pack<kPack>(z + i), s = a;
  for (int j = 0; j < kPack; ++j) {
    float d = 0;
    a.x[j] = T(activate<Activation::kGelu>(static_cast<float>(a.x[j]), d));
    s.x[j] = T(d);
  }
  store_pack<kPack>(y + i, a);
  store_pack<kPack>(slope + i, s);
}

template <Activation Act, class T, int kPack>
struct BackwardColumns {
  const T *dy, *saved;
  T* dz;  // or null
  int64_t columns;
  __device__ BackwardColumns at(int64_t, int64_t c) const {
    return {dy + c, saved ? saved + c : nullptr, dz ? dz + c : nullptr, columns};
  }
  __device__ void operator()(int64_t r, float (&sum)[1][kPack]) const {
    auto g = load_pack<kPack>(dy + r * columns);
    Pack<T, kPack> s{};
    if constexpr (Act != Activation::kNone) s = load_pack<kPack>(saved + r * columns);
    for (int j = 0; j < kPack; ++j) {
      float d = activation_grad<Act>(static_cast<float>(g.x[j]), static_cast<float>(s.x[j]));
      sum[0][j] += d;
      g.x[j] = T(d);
    }
    if (dz) store_pack<kPack>(dz + r * columns, g);
  }
};

template <class F>
void with_types(Activation act, DType dtype, const F& f) {
  with_activation(act, [&]<Activation Act>() {
    dtype == DType::kF32 ? f.template operator()<Act, float>() : f.template operator()<Act, bf16>();
  });
}

void forward_cuda(Activation act, const Tensor& z, Tensor& y, Tensor& slope) {
  if (z.dtype() == DType::kF64) return activation_forward.generic(act, z, y, slope);
  if (z.numel() == 0) return;
  with_types(act, z.dtype(), [&]<Activation Act, class T>() {
    if (Act != Activation::kGelu || !slope.defined())
      return map_each(z.numel(), Activate<Act, T>{}, y.data<T>(), z.data<T>());
    auto run = [&]<int kPack>() {
      launch("gelu_with_slope", &gelu_with_slope<T, kPack>,
             dim3(static_cast<unsigned>(ceil_div(z.numel() / kPack, kMapThreads))), dim3(kMapThreads), 0,
             z.numel(), z.data<T>(), y.data<T>(), slope.data<T>());
    };
    constexpr int kPack = kPackWidth<T>;
    auto fits = [&](const T* p) { return packs_fit<kPack>(p, z.numel()); };
    if (fits(z.data<T>()) && fits(y.data<T>()) && fits(slope.data<T>()))
      run.template operator()<kPack>();
    else
      run.template operator()<1>();
  });
}

void backward_cuda(Activation act, const Tensor& dy, const Tensor& saved, Tensor& dz, Tensor& bias_grad) {
  if (dy.dtype() == DType::kF64 || dy.numel() == 0)
    return activation_backward.generic(act, dy, saved, dz, bias_grad);
  with_types(act, dy.dtype(), [&]<Activation Act, class T>() {
    const T *pd = dy.data<T>(), *ps = Act == Activation::kNone ? pd : saved.data<T>();
    T* out = dz.defined() ? dz.data<T>() : nullptr;
    if (!bias_grad.defined()) {
      if (out) map_each(dy.numel(), Slope<Act, T>{}, out, pd, ps);
      return;
    }
    int64_t rows = dy.dim(0), columns = dy.dim(1);
    auto run = [&]<int kPack>() {
      sum_columns<kPack, 1>(ColumnTiles(1, rows, columns, kPack),
                            BackwardColumns<Act, T, kPack>{pd, ps, out, columns}, 1.0,
                            bias_grad.data<float>());
    };
    constexpr int kPack = kPackWidth<T>;
    auto fits = [&](const T* p) { return packs_fit<kPack>(p, columns); };
    if (fits(pd) && fits(ps) && fits(out))
      run.template operator()<kPack>();
    else
      run.template operator()<1>();
  });
}

SACCADE_REGISTER_TUNED_KERNEL(activation_forward, Device::kCuda, &forward_cuda);
SACCADE_REGISTER_TUNED_KERNEL(activation_backward, Device::kCuda, &backward_cuda);

}  // namespace
}  // namespace saccade::kernels
