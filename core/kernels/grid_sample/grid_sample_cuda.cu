// Grid sampling in f32 and bf16: rows of one point, which has weight 1, with the kernels of sample_gather.h
// and sample_scatter.h. A group of channels is what a head is there.
#include "core/kernels/grid_sample/grid_sample.h"

#include "core/kernels/common/sample_gather_cuda.h"
#include "core/kernels/common/sample_scatter_cuda.h"
#include "core/kernels/copy/copy.h"
#include "core/tensor/execution.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
namespace {

using cuda::SamplePoint, cuda::SampleRow, cuda::SampleShape;

struct GridSource {
  const float* grid;  // [N, G, P, 2]
  float scale_x, scale_y, shift;

  struct Located {
    SamplePoint point;
    float x, y;
    int level = 0;
  };
  __device__ __forceinline__ int64_t point_of(const SampleShape& s, const SampleRow& row) const {
    return (static_cast<int64_t>(row.n) * s.M + row.m) * s.Q + row.q;
  }
  __device__ __forceinline__ Located locate(const SampleShape& s, const SampleRow& row, int) const {
    auto at = cuda::load_pack<2>(grid + 2 * point_of(s, row));
    Located out;
    out.x = math::fma(at.x[0] + 1, scale_x, -shift);
    out.y = math::fma(at.x[1] + 1, scale_y, -shift);
    out.point = SamplePoint::at(out.x, out.y, s.levels.height[0], s.levels.width[0]);
    return out;
  }
  struct Weights {
    __device__ __forceinline__ float of(int) const { return 1; }
  };
  template <int kLanes>
  __device__ __forceinline__ Weights weights(const SampleShape&, const SampleRow&, int) const {
    return {};
  }
  struct Gradients {
    float* dgrid;  // may be null
  };
  struct Sums {};
  __device__ __forceinline__ void point_gradient(const Gradients& out, const SampleShape& s,
                                                 const SampleRow& row, int k, float, const float (&dots)[4],
                                                 Sums&) const {
    if (!out.dgrid) return;
    SamplePoint p = locate(s, row, k).point;
    cuda::store_pack<2>(out.dgrid + 2 * point_of(s, row),
                        {p.slope_x(dots) * scale_x, p.slope_y(dots) * scale_y});
  }
  template <int kLanes>
  __device__ __forceinline__ void finish(const Gradients&, const SampleShape&, const SampleRow&, bool, int,
                                         const Weights&, const Sums&) const {}
};

bool forward_supported(const Tensor& x, const Tensor& grid, const bool&, const Tensor& y) {
  if (!takes_f32_or_bf16(x) || y.numel() == 0) return false;
  int64_t G = grid.dim(1);
  return cuda::packs_fit<2>(grid.data<float>(), 0) &&
         cuda::indices_fit(x.dim(0), grid.dim(2), G, x.dim(3) / G, 1, x.dim(1) * x.dim(2));
}

SampleShape shape_of(const Tensor& x, const Tensor& grid) {
  auto size = [](int64_t n) { return static_cast<int>(n); };
  SampleShape s{size(x.dim(0)), size(grid.dim(2)), size(grid.dim(1)), size(x.dim(3) / grid.dim(1)), 1, {}};
  s.levels.push_back({x.dim(1), x.dim(2)});
  return s;
}

bool backward_supported(const Tensor& x, const Tensor& grid, const bool& align_corners, const Tensor& dy,
                        const Tensor&, const Tensor&) {
  return forward_supported(x, grid, align_corners, dy) && cuda::scatter_fits(shape_of(x, grid));
}

GridSource source_of(const Tensor& x, const Tensor& grid, bool align_corners) {
  auto scale = [&](int64_t size) { return static_cast<float>(align_corners ? size - 1 : size) * 0.5f; };
  return {grid.data<float>(), scale(x.dim(2)), scale(x.dim(1)), align_corners ? 0.0f : 0.5f};
}

void forward_cuda(const Tensor& x, const Tensor& grid, bool align_corners, Tensor& y) {
  GridSource source = source_of(x, grid, align_corners);
  dispatch_dtype<float, bf16>(x.dtype(), "grid_sample",
                              [&]<class T>() { cuda::launch_gather<T>(source, shape_of(x, grid), x, y); });
}

template <class T>
void backward_typed(const GridSource& source, const SampleShape& s, const Tensor& x, const Tensor& dy,
                    Tensor& dx, Tensor& dgrid) {
  Tensor unordered;
  if (dx.defined() && !execution().deterministic) unordered = cuda::zero_sums<T>(dx);
  if (dgrid.defined() || unordered.defined())
    cuda::launch_point_gradients<T>(source, {data_or_null<float>(dgrid)}, s, x, dy, unordered);
  if (unordered.defined()) {
    if (!std::is_same_v<T, float>) copy(unordered, dx);
  } else if (dx.defined()) {
    cuda::scatter_samples<T>(source, s, dy, dx);
  }
}

void backward_cuda(const Tensor& x, const Tensor& grid, bool align_corners, const Tensor& dy, Tensor& dx,
                   Tensor& dgrid) {
  GridSource source = source_of(x, grid, align_corners);
  dispatch_dtype<float, bf16>(x.dtype(), "grid_sample", [&]<class T>() {
    backward_typed<T>(source, shape_of(x, grid), x, dy, dx, dgrid);
  });
}

SACCADE_REGISTER_TUNED_KERNEL(grid_sample_forward, Device::kCuda, &forward_cuda, &forward_supported);
SACCADE_REGISTER_TUNED_KERNEL(grid_sample_backward, Device::kCuda, &backward_cuda, &backward_supported);

}  // namespace
}  // namespace saccade::kernels
