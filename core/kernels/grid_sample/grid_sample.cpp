#include "core/kernels/grid_sample/grid_sample.h"

#include "core/kernels/common/bilinear.h"
#include "core/kernels/copy/copy.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int kChannels = 32;  // of one owner

template <class T, class A = acc_t<T>>
struct GridInputs {
  const T* x;
  const A* grid;
  int64_t N, H, W, C, G, P, D;  // D = C / G channels of a group
  bool align_corners;

  static GridInputs make(const Tensor& x, const Tensor& grid, bool align) {
    return {x.data<T>(), grid.data<A>(),         x.dim(0), x.dim(1), x.dim(2), x.dim(3), grid.dim(1),
            grid.dim(2), x.dim(3) / grid.dim(1), align};
  }
  // Cells per unit of the grid's coordinate.
  SACCADE_HD A scale(int64_t size) const { return static_cast<A>(align_corners ? size - 1 : size) * A(0.5); }
  // Point i = (n * G + g) * P + p.
  SACCADE_HD Bilinear<A> sample(int64_t i) const {
    A shift = align_corners ? A(0) : A(0.5);
    return Bilinear<A>::at((grid[2 * i] + 1) * scale(W) - shift, (grid[2 * i + 1] + 1) * scale(H) - shift, H,
                           W);
  }
  // The group's channels of cell 0 of its image, and of the point's output row.
  SACCADE_HD int64_t image(int64_t i) const { return i / P / G * H * W * C + i / P % G * D; }
  SACCADE_HD int64_t row(int64_t i) const { return (i / P / G * P + i % P) * C + i / P % G * D; }
};

template <class T, class A = acc_t<T>>
struct GridForward {  // i = (n * G + g) * P + p
  GridInputs<T> p;
  T* y;
  SACCADE_HD void operator()(int64_t i) const {
    Bilinear<A> b = p.sample(i);
    const T* image = p.x + p.image(i);
    const T* v[4];
    for (int c = 0; c < 4; ++c) {
      if (b.cell[c] < 0) b.weight[c] = 0;
      v[c] = b.cell[c] < 0 ? nullptr : image + b.cell[c] * p.C;
    }
    T* out = y + p.row(i);
    if (v[0] && v[1] && v[2] && v[3]) {
      for (int64_t d = 0; d < p.D; ++d)
        out[d] =
            static_cast<T>(b.weight[0] * static_cast<A>(v[0][d]) + b.weight[1] * static_cast<A>(v[1][d]) +
                           b.weight[2] * static_cast<A>(v[2][d]) + b.weight[3] * static_cast<A>(v[3][d]));
      return;
    }
    for (int64_t d = 0; d < p.D; ++d) {
      A sum = 0;
      for (int c = 0; c < 4; ++c)
        if (v[c]) sum += b.weight[c] * static_cast<A>(v[c][d]);
      out[d] = static_cast<T>(sum);
    }
  }
};

template <class T, class A = acc_t<T>>
struct GridGradient {  // i = (n * G + g) * P + p
  GridInputs<T> p;
  const T* dy;
  A* dgrid;
  SACCADE_HD void operator()(int64_t i) const {
    Bilinear<A> b = p.sample(i);
    const T* image = p.x + p.image(i);
    A dot[4] = {};
    for (int c = 0; c < 4; ++c) {
      if (b.cell[c] < 0) continue;
      const T *v = image + b.cell[c] * p.C, *g = dy + p.row(i);
      for (int64_t d = 0; d < p.D; ++d) dot[c] += static_cast<A>(v[d]) * static_cast<A>(g[d]);
    }
    dgrid[2 * i] = b.slope_x(dot) * p.scale(p.W);
    dgrid[2 * i + 1] = b.slope_y(dot) * p.scale(p.H);
  }
};

// i = (n * G + g) * blocks + block owns these channels of group g of image n.
template <class T, class A = acc_t<T>>
struct MapGradient {
  GridInputs<T> p;
  const T* dy;
  A* dx;  // zero
  int64_t blocks;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t ng = i / blocks, d0 = i % blocks * kChannels;
    int64_t count = p.D - d0 < kChannels ? p.D - d0 : kChannels;
    for (int64_t j = ng * p.P; j < (ng + 1) * p.P; ++j) {
      Bilinear<A> b = p.sample(j);
      const T* g = dy + p.row(j) + d0;
      for (int c = 0; c < 4; ++c) {
        if (b.cell[c] < 0) continue;
        A* v = dx + p.image(j) + b.cell[c] * p.C + d0;
        for (int64_t d = 0; d < count; ++d) v[d] += b.weight[c] * static_cast<A>(g[d]);
      }
    }
  }
};

void forward_generic(const Tensor& x, const Tensor& grid, bool align_corners, Tensor& y) {
  if (y.numel() == 0) return;
  dispatch_float(x.dtype(), "grid_sample", [&]<class T>() {
    auto p = GridInputs<T>::make(x, grid, align_corners);
    for_each(p.N * p.G * p.P, GridForward<T>{p, y.data<T>()}, p.D * 4);
  });
}

void backward_generic(const Tensor& x, const Tensor& grid, bool align_corners, const Tensor& dy, Tensor& dx,
                      Tensor& dgrid) {
  dispatch_float(x.dtype(), "grid_sample", [&]<class T>() {
    using A = acc_t<T>;
    auto p = GridInputs<T>::make(x, grid, align_corners);
    if (dgrid.defined())
      for_each(p.N * p.G * p.P, GridGradient<T>{p, dy.data<T>(), dgrid.data<A>()}, p.D * 4);
    if (dx.defined()) {
      Tensor sum = std::is_same_v<T, A> ? dx : Tensor::empty(x.shape(), dtype_of<A>, x.device());
      fill(sum, 0);
      int64_t blocks = ceil_div(p.D, kChannels);
      for_each(p.N * p.G * blocks, MapGradient<T>{p, dy.data<T>(), sum.data<A>(), blocks},
               p.P * kChannels * 4);
      if (!std::is_same_v<T, A>) copy(sum, dx);
    }
  });
}

SACCADE_REGISTER_KERNEL(grid_sample_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(grid_sample_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
