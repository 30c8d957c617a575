// Bilinear sampling of a feature map at arbitrary positions.
#include "core/kernels/grid_sample/grid_sample.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

struct GridSample {
  static constexpr const char* kName = "grid_sample";
  static constexpr std::array kCasts{Cast::kWidest, Cast::kF32};

  bool align_corners;
  bool grouped = false;
  void describe(OpAttributes& to) const { to.add("align_corners", int64_t{align_corners}); }

  static int64_t macs(const Tensors&, const Tensor& out) { return out.numel() * 4; }  // four corners

  Tensor forward(Context& ctx, const Tensors& in) {
    Tensor x = in[0].contiguous(), grid = in[1].contiguous();
    grouped = grid.rank() == 4;
    if (!grouped) grid = grid.unsqueeze(1);
    Tensor y = Tensor::empty({x.dim(0), grid.dim(2), x.dim(3)}, x.dtype(), x.device());
    kernels::grid_sample_forward(x, grid, align_corners, y);
    ctx.save(x, grid);
    return y;
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Gradients grads = ctx.empty_gradients(2);
    Tensor g = dy.to(ctx.saved(0).dtype()).contiguous();
    kernels::grid_sample_backward(ctx.saved(0), ctx.saved(1), align_corners, g, grads[0], grads[1]);
    if (ctx.needs(1) && !grouped) grads[1] = grads[1].squeeze(1);
    return grads;
  }
};

}  // namespace

Var grid_sample(const Var& x, const Var& grid, bool align_corners) {
  SACCADE_CHECK(x.rank() == 4, "[grid_sample] x, got {}, expected [N, H, W, C]", x.shape());
  SACCADE_CHECK((grid.rank() == 3 || grid.rank() == 4) && grid.dim(0) == x.dim(0) && grid.dim(-1) == 2,
                "[grid_sample] grid, got {}, expected [{}, P, 2] or [{}, G, P, 2]", grid.shape(), x.dim(0),
                x.dim(0));
  SACCADE_CHECK(grid.rank() == 3 || (grid.dim(1) > 0 && x.dim(3) % grid.dim(1) == 0),
                "[grid_sample] {} groups of points, expected a divisor of the {} channels", grid.dim(1),
                x.dim(3));
  return run_op(GridSample{align_corners}, {x, grid});
}

}  // namespace saccade
