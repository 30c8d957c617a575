// Single-source grid sampling: the kernels of samples_generic.h over GridSource.
#include "core/kernels/grid_sample/grid_sample.h"

#include "core/kernels/common/samples_generic.h"
#include "core/kernels/grid_sample/grid_source.h"

namespace saccade::kernels {
namespace {

void forward_generic(const Tensor& x, const Tensor& grid, bool align_corners, Tensor& y) {
  if (y.numel() == 0) return;
  dispatch_float(x.dtype(), "grid_sample", [&]<class T>() {
    gather_rows<T>(GridSource<acc_t<T>>(x, grid, align_corners), shape_of_grid(x, grid), x, y);
  });
}

void backward_generic(const Tensor& x, const Tensor& grid, bool align_corners, const Tensor& dy, Tensor& dx,
                      Tensor& dgrid) {
  dispatch_float(x.dtype(), "grid_sample", [&]<class T>() {
    using A = acc_t<T>;
    samples_backward<T>(GridSource<A>(x, grid, align_corners), {data_or_null<A>(dgrid)}, dgrid.defined(),
                        shape_of_grid(x, grid), x, dy, dx);
  });
}

SACCADE_REGISTER_KERNEL(grid_sample_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(grid_sample_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
