// Frozen batch norm: a thread keeps scale and shift of its columns and iterates over the rows.
#include "core/kernels/channel_affine/channel_affine.h"

#include "core/kernels/common/column_tiles_cuda.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

// y = act(x scale + shift)
template <class F, class T, int kPack>
__global__ void __launch_bounds__(kColumnThreads)
    affine_forward(ColumnTiles t, const T* x, const float* scale, const float* shift, T* y) {
  ColumnPosition p = t.position();
  if (p.row >= p.end) return;
  auto a = load_pack<kPack>(scale + p.column), b = load_pack<kPack>(shift + p.column);
#pragma unroll 4
  for (int64_t r = p.row; r < p.end; r += t.levels()) {
    auto v = load_pack<kPack>(x + r * t.columns + p.column);
    for (int j = 0; j < kPack; ++j) {
      v.x[j] = T(F::value(static_cast<float>(v.x[j]) * a.x[j] + b.x[j]));
    }
    store_pack<kPack>(y + r * t.columns + p.column, v);
  }
}

// dx = dy act'(x scale + shift) scale
template <class F, class T, int kPack>
__global__ void __launch_bounds__(kColumnThreads)
    affine_backward(ColumnTiles t, const T* dy, const T* saved, const float* scale, const float* shift,
                    T* dx) {
  ColumnPosition p = t.position();
  if (p.row >= p.end) return;
  auto a = load_pack<kPack>(scale + p.column), b = a;
  if constexpr (!F::kFromValue) b = load_pack<kPack>(shift + p.column);
#pragma unroll 4
  for (int64_t r = p.row; r < p.end; r += t.levels()) {
    int64_t at = r * t.columns + p.column;
    auto g = load_pack<kPack>(dy + at);
    Pack<T, kPack> own{};
    if constexpr (!is_identity<F>) own = load_pack<kPack>(saved + at);
    for (int j = 0; j < kPack; ++j) {
      float s = static_cast<float>(own.x[j]);
      if constexpr (!F::kFromValue) s = s * a.x[j] + b.x[j];
      g.x[j] = T(F::gradient(s, static_cast<float>(g.x[j]) * a.x[j]));
    }
    store_pack<kPack>(dx + at, g);
  }
}

// y = relu(x scale + shift + residual)
template <class T, int kPack>
__global__ void __launch_bounds__(kColumnThreads)
    affine_add_relu(ColumnTiles t, const T* __restrict__ x, const float* __restrict__ scale,
                    const float* __restrict__ shift, const T* __restrict__ residual, T* __restrict__ y) {
  ColumnPosition p = t.position();
  if (p.row >= p.end) return;
  auto a = load_pack<kPack>(scale + p.column), b = load_pack<kPack>(shift + p.column);
#pragma unroll 4
  for (int64_t r = p.row; r < p.end; r += t.levels()) {
    int64_t at = r * t.columns + p.column;
    auto v = load_pack<kPack>(x + at), add = load_pack<kPack>(residual + at);
    for (int j = 0; j < kPack; ++j) {
      float z = static_cast<float>(v.x[j]) * a.x[j] + b.x[j];
      v.x[j] = T(Relu::value(z + static_cast<float>(add.x[j])));
    }
    store_pack<kPack>(y + at, v);
  }
}

// Either result may be null.
template <class T, int kPack>
__global__ void __launch_bounds__(kColumnThreads)
    affine_add_relu_gradients(ColumnTiles t, const T* __restrict__ dy, const T* __restrict__ y,
                              const float* __restrict__ scale, T* __restrict__ dx,
                              T* __restrict__ dresidual) {
  ColumnPosition p = t.position();
  if (p.row >= p.end) return;
  auto a = load_pack<kPack>(scale + p.column);
#pragma unroll 4
  for (int64_t r = p.row; r < p.end; r += t.levels()) {
    int64_t at = r * t.columns + p.column;
    auto g = load_pack<kPack>(dy + at), own = load_pack<kPack>(y + at), scaled = g;
    for (int j = 0; j < kPack; ++j) {
      float d = Relu::gradient(static_cast<float>(own.x[j]), static_cast<float>(g.x[j]));
      g.x[j] = T(d);
      scaled.x[j] = T(d * a.x[j]);
    }
    if (dresidual) store_pack<kPack>(dresidual + at, g);
    if (dx) store_pack<kPack>(dx + at, scaled);
  }
}

// Calls visit<F, T, kPack>(tiles).
template <class Visit>
void dispatch_affine(const Tensor& x, Activation act, bool packs, const Visit& visit) {
  dispatch_packs(x.dtype(), packs, [&]<class T, int kPack>() {
    ColumnTiles t(1, x.dim(0), x.dim(1), kPack, kApplyBlocks);
    with_activation(act, [&]<class F>() { visit.template operator()<F, T, kPack>(t); });
  });
}

void forward_cuda(const Tensor& x, const Tensor& scale, const Tensor& shift, Activation act, Tensor& y) {
  dispatch_affine(x, act, rows_fit_packs(x.dim(1), x, y, scale, shift),
                  [&]<class F, class T, int kPack>(const ColumnTiles& t) {
                    launch("affine_forward", &affine_forward<F, T, kPack>, {t.blocks(), kColumnThreads}, t,
                           x.data<T>(), scale.data<float>(), shift.data<float>(), y.data<T>());
                  });
}

void backward_cuda(const Tensor& dy, const Tensor& saved, const Tensor& scale, const Tensor& shift,
                   Activation act, Tensor& dx) {
  dispatch_affine(dy, act, rows_fit_packs(dy.dim(1), dy, dx, saved, scale, shift),
                  [&]<class F, class T, int kPack>(const ColumnTiles& t) {
                    launch("affine_backward", &affine_backward<F, T, kPack>, {t.blocks(), kColumnThreads}, t,
                           dy.data<T>(), data_or_null<T>(saved), scale.data<float>(), shift.data<float>(),
                           dx.data<T>());
                  });
}

void add_relu_cuda(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& residual,
                   Tensor& y) {
  dispatch_packs(
      x.dtype(), rows_fit_packs(x.dim(1), x, residual, y, scale, shift), [&]<class T, int kPack>() {
        ColumnTiles t(1, x.dim(0), x.dim(1), kPack, kApplyBlocks);
        launch("affine_add_relu", &affine_add_relu<T, kPack>, {t.blocks(), kColumnThreads}, t, x.data<T>(),
               scale.data<float>(), shift.data<float>(), residual.data<T>(), y.data<T>());
      });
}

void add_relu_backward_cuda(const Tensor& dy, const Tensor& y, const Tensor& scale, Tensor& dx,
                            Tensor& dresidual) {
  dispatch_packs(dy.dtype(), rows_fit_packs(dy.dim(1), dy, y, scale, dx, dresidual),
                 [&]<class T, int kPack>() {
                   ColumnTiles t(1, dy.dim(0), dy.dim(1), kPack, kApplyBlocks);
                   launch("affine_add_relu_gradients", &affine_add_relu_gradients<T, kPack>,
                          {t.blocks(), kColumnThreads}, t, dy.data<T>(), y.data<T>(), scale.data<float>(),
                          data_or_null<T>(dx), data_or_null<T>(dresidual));
                 });
}

SACCADE_REGISTER_TUNED_KERNEL(affine_add_relu_forward, Device::kCuda, &add_relu_cuda, &takes_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(affine_add_relu_backward, Device::kCuda, &add_relu_backward_cuda,
                              &takes_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(channel_affine_forward, Device::kCuda, &forward_cuda, &takes_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(channel_affine_backward, Device::kCuda, &backward_cuda, &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
