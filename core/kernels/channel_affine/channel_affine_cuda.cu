// Frozen batch norm: a thread keeps scale and shift of its columns and walks down the rows.
#include "core/kernels/channel_affine/channel_affine.h"

#include "core/kernels/common/columns_cuda.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

// y = relu?(x scale + shift)
template <class T, int kPack, bool kRelu>
__global__ void __launch_bounds__(kColumnThreads)
    affine_forward(ColumnTiles t, const T* x, const float* scale, const float* shift, T* y) {
  ColumnPlace p = t.place();
  if (p.row >= p.end) return;
  auto a = load_pack<kPack>(scale + p.column), b = load_pack<kPack>(shift + p.column);
#pragma unroll 4
  for (int64_t r = p.row; r < p.end; r += t.levels()) {
    auto v = load_pack<kPack>(x + r * t.columns + p.column);
    for (int j = 0; j < kPack; ++j) {
      float z = static_cast<float>(v.x[j]) * a.x[j] + b.x[j];
      v.x[j] = T(kRelu && z < 0 ? 0.0f : z);
    }
    store_pack<kPack>(y + r * t.columns + p.column, v);
  }
}

// dx = dy scale where the relu let through
template <class T, int kPack, bool kRelu>
__global__ void __launch_bounds__(kColumnThreads)
    affine_backward(ColumnTiles t, const T* dy, const T* y, const float* scale, T* dx) {
  ColumnPlace p = t.place();
  if (p.row >= p.end) return;
  auto a = load_pack<kPack>(scale + p.column);
#pragma unroll 4
  for (int64_t r = p.row; r < p.end; r += t.levels()) {
    int64_t at = r * t.columns + p.column;
    auto g = load_pack<kPack>(dy + at);
    Pack<T, kPack> saved{};
    if constexpr (kRelu) saved = load_pack<kPack>(y + at);
    for (int j = 0; j < kPack; ++j) {
      bool open = !kRelu || static_cast<float>(saved.x[j]) > 0;
      g.x[j] = T(open ? static_cast<float>(g.x[j]) * a.x[j] : 0.0f);
    }
    store_pack<kPack>(dx + at, g);
  }
}

// f<T, kPack, kRelu>(tiles); the pack is 1 unless `fits` accepts a wide one.
template <class Fits, class F>
void with_instance(const Tensor& x, Activation act, const Fits& fits, const F& f) {
  auto typed = [&]<class T, int kPack>() {
    ColumnTiles t(1, x.dim(0), x.dim(1), kPack, kApplyBlocks);
    act == Activation::kRelu ? f.template operator()<T, kPack, true>(t)
                             : f.template operator()<T, kPack, false>(t);
  };
  auto packed = [&]<class T>() {
    constexpr int kPack = kPackWidth<T>;
    fits.template operator()<T, kPack>() ? typed.template operator()<T, kPack>()
                                         : typed.template operator()<T, 1>();
  };
  x.dtype() == DType::kF32 ? packed.template operator()<float>() : packed.template operator()<bf16>();
}

void forward_cuda(const Tensor& x, const Tensor& scale, const Tensor& shift, Activation act, Tensor& y) {
  if (x.dtype() == DType::kF64 || x.numel() == 0)
    return channel_affine_forward.generic(x, scale, shift, act, y);
  const float *a = scale.data<float>(), *b = shift.data<float>();
  int64_t columns = x.dim(1);
  with_instance(
      x, act,
      [&]<class T, int kPack>() {
        return packs_fit<kPack>(x.data<T>(), columns) && packs_fit<kPack>(y.data<T>(), columns) &&
               packs_fit<kPack>(a, columns) && packs_fit<kPack>(b, columns);
      },
      [&]<class T, int kPack, bool kRelu>(const ColumnTiles& t) {
        launch("affine_forward", &affine_forward<T, kPack, kRelu>, t.grid(), dim3(kColumnThreads), 0, t,
               x.data<T>(), a, b, y.data<T>());
      });
}

void backward_cuda(const Tensor& dy, const Tensor& y, const Tensor& scale, Activation act, Tensor& dx) {
  if (dy.dtype() == DType::kF64 || dy.numel() == 0)
    return channel_affine_backward.generic(dy, y, scale, act, dx);
  const float* a = scale.data<float>();
  int64_t columns = dy.dim(1);
  const void* saved = act == Activation::kRelu ? y.raw() : nullptr;
  with_instance(
      dy, act,
      [&]<class T, int kPack>() {
        return packs_fit<kPack>(dy.data<T>(), columns) && packs_fit<kPack>(dx.data<T>(), columns) &&
               packs_fit<kPack>(static_cast<const T*>(saved), columns) && packs_fit<kPack>(a, columns);
      },
      [&]<class T, int kPack, bool kRelu>(const ColumnTiles& t) {
        launch("affine_backward", &affine_backward<T, kPack, kRelu>, t.grid(), dim3(kColumnThreads), 0, t,
               dy.data<T>(), static_cast<const T*>(saved), a, dx.data<T>());
      });
}

SACCADE_REGISTER_TUNED_KERNEL(channel_affine_forward, Device::kCuda, &forward_cuda);
SACCADE_REGISTER_TUNED_KERNEL(channel_affine_backward, Device::kCuda, &backward_cuda);

}  // namespace
}  // namespace saccade::kernels
