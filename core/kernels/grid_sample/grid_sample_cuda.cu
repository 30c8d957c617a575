// Grid sampling in f32 and bf16 with the kernels of sample_gather_cuda.h and sample_scatter_cuda.h.
#include "core/kernels/common/sample_gather_cuda.h"
#include "core/kernels/common/sample_scatter_cuda.h"
#include "core/kernels/grid_sample/grid_source.h"

namespace saccade::kernels {
namespace {

using Source = GridSource<float, cuda::LaneAccess>;

bool forward_supported(const Tensor& x, const Tensor& grid, const bool&, const Tensor& y) {
  if (!takes_f32_or_bf16(x) || y.numel() == 0) return false;
  int64_t G = grid.dim(1);
  return cuda::packs_fit<2>(grid.data<float>(), 0) &&
         cuda::indices_fit(x.dim(0), grid.dim(2), G, x.dim(3) / G, 1, x.dim(1) * x.dim(2));
}

bool backward_supported(const Tensor& x, const Tensor& grid, const bool& align_corners, const Tensor& dy,
                        const Tensor&, const Tensor&) {
  return forward_supported(x, grid, align_corners, dy) && cuda::scatter_fits(shape_of_grid(x, grid));
}

void forward_cuda(const Tensor& x, const Tensor& grid, bool align_corners, Tensor& y) {
  Source source(x, grid, align_corners);
  dispatch_dtype<float, bf16>(x.dtype(), "grid_sample", [&]<class T>() {
    cuda::launch_gather<T>(source, shape_of_grid(x, grid), x, y);
  });
}

void backward_cuda(const Tensor& x, const Tensor& grid, bool align_corners, const Tensor& dy, Tensor& dx,
                   Tensor& dgrid) {
  Source source(x, grid, align_corners);
  dispatch_dtype<float, bf16>(x.dtype(), "grid_sample", [&]<class T>() {
    SampleShape s = shape_of_grid(x, grid);
    cuda::samples_backward<T>(source, dgrid.defined(), s, dy, dx, [&](Tensor& unordered) {
      cuda::launch_point_gradients<T>(source, {data_or_null<float>(dgrid)}, s, x, dy, unordered);
    });
  });
}

SACCADE_REGISTER_TUNED_KERNEL(grid_sample_forward, Device::kCuda, &forward_cuda, &forward_supported);
SACCADE_REGISTER_TUNED_KERNEL(grid_sample_backward, Device::kCuda, &backward_cuda, &backward_supported);

}  // namespace
}  // namespace saccade::kernels
