// A thread moves 16 bytes of channels of the tensor that is written.
#include "core/kernels/conv2d/conv2d_cuda_kernels.h"

#include "core/runtime/cuda/block.h"

namespace saccade::cuda {
namespace {

constexpr int kThreads = 256;

// The pixel (h, w) of image n in a grid, and the pack of its channels.
struct Grid {
  int height, width, packs;
};

// to[n, h, w] = from[n, h * up / down, w * up / down] where that is a pixel of `from`, else 0;
// one of up and down is 1.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    move_pixels(const T* from, Grid source, T* to, Grid target, int64_t packs, int up, int down) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  const auto pixel = static_cast<int>(i / target.packs), pack = static_cast<int>(i % target.packs);
  const int row = pixel / target.width, h = row % target.height * up, w = pixel % target.width * up;
  const int n = row / target.height;
  Pack<T, V> value{};
  if (h % down == 0 && w % down == 0) {
    const int64_t at = (static_cast<int64_t>(n) * source.height + h / down) * source.width + w / down;
    value = load_pack<V>(from + (at * source.packs + pack) * V);
  }
  store_pack<V>(to + i * V, value);
}

void move(const Tensor& from, Tensor& to, int64_t up, int64_t down) {
  dispatch_packs(to.dtype(), rows_fit_packs(to.dim(-1), to, from), [&]<class T, int V>() {
    auto grid = [](const Tensor& t) {
      return Grid{static_cast<int>(t.dim(1)), static_cast<int>(t.dim(2)), static_cast<int>(t.dim(3) / V)};
    };
    const int64_t packs = to.numel() / V;
    launch("move_pixels", &move_pixels<T, V>, grid_of(packs, kThreads), dim3(kThreads), 0, from.data<T>(),
           grid(from), to.data<T>(), grid(to), packs, static_cast<int>(up), static_cast<int>(down));
  });
}

}  // namespace

void pick_pixels(const Tensor& x, int64_t stride, Tensor& y) { move(x, y, stride, 1); }
void spread_pixels(const Tensor& y, int64_t stride, Tensor& x) { move(y, x, 1, stride); }

}  // namespace saccade::cuda
