// Bilinear sampling of a feature map at free positions.
#include "core/kernels/grid_sample.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

struct GridSample {
  static constexpr const char* kName = "grid_sample";
  static constexpr Policy kPolicy = Policy::kSame;  // x keeps its dtype, coordinates stay exact

  bool align_corners;

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor x = in[0].contiguous();
    Tensor grid = in[1].to(x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32).contiguous();
    Tensor y = Tensor::empty({x.dim(0), grid.dim(1), x.dim(3)}, x.dtype(), x.device());
    kernels::grid_sample_forward(x, grid, align_corners, y);
    if (ctx.needs_any()) {
      ctx.save(x);
      ctx.save(grid);
    }
    return y;
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Gradients grads(2);
    for (size_t i = 0; i < 2; ++i)
      if (ctx.needs(i)) grads[i] = ctx.saved(i).empty_like();
    Tensor g = dy.to(ctx.saved(0).dtype()).contiguous();
    kernels::grid_sample_backward(ctx.saved(0), ctx.saved(1), align_corners, g, grads[0], grads[1]);
    return grads;
  }
};

}  // namespace

Var grid_sample(const Var& x, const Var& grid, bool align_corners) {
  SACCADE_CHECK(x.rank() == 4, "[grid_sample] x, got {}, expected [N, H, W, C]", x.shape().to_string());
  SACCADE_CHECK(grid.rank() == 3 && grid.dim(0) == x.dim(0) && grid.dim(2) == 2,
                "[grid_sample] grid, got {}, expected [{}, P, 2]", grid.shape().to_string(), x.dim(0));
  return run_op(GridSample{align_corners}, {x, grid});
}

}  // namespace saccade
