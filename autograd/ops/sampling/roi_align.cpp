#include "core/kernels/roi_align/roi_align.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

struct RoiAlign {
  static constexpr const char* kName = "roi_align";
  static constexpr std::array kCasts{Cast::kWidest};
  static constexpr auto macs = no_macs;  // the number of samples depends on the boxes
  Tensor rois, level_of_roi, image_of_roi;
  kernels::RoiAlignParams p;
  std::vector<Shape> shapes{};
  void describe(OpAttributes& to) const {
    to.add("rois", rois).add("level_of_roi", level_of_roi).add("image_of_roi", image_of_roi);
    to.add("size", p.size)
        .add("sampling_ratio", p.sampling_ratio)
        .add("strides", p.strides)
        .add("aligned", int64_t{p.aligned});
  }

  Tensor forward(Context& ctx, const Tensors& in) {
    Tensors levels;
    for (const Tensor& t : in) {
      levels.push_back(t.contiguous());
      shapes.push_back(t.shape());
    }
    Tensor y = Tensor::empty({rois.dim(0), p.size, p.size, in[0].dim(3)}, in[0].dtype(), in[0].device());
    kernels::roi_align_forward(rois, level_of_roi, image_of_roi, levels, p, y);
    ctx.save(rois, level_of_roi, image_of_roi);
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Gradients grads(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i)
      if (ctx.needs(i)) grads[i] = Tensor::empty(shapes[i], dy.dtype(), dy.device());
    kernels::roi_align_backward(ctx.saved(0), ctx.saved(1), ctx.saved(2), dy.contiguous(), p, grads);
    return grads;
  }
};

}  // namespace

Var roi_align(const Vars& levels, const Tensor& rois, const Tensor& level_of_roi, const Tensor& image_of_roi,
              const RoiAlignOptions& options) {
  constexpr const char* op = RoiAlign::kName;
  constexpr int64_t kMaxLevels = kernels::RoiAlignParams::kMaxLevels;
  SACCADE_CHECK(
      !levels.empty() && std::ssize(levels) <= kMaxLevels && levels.size() == options.strides.size(),
      "[{}] {} levels and {} strides, expected the same number of both, 1 to {}", op, levels.size(),
      options.strides.size(), kMaxLevels);
  for (const Var& level : levels)
    SACCADE_CHECK(level.rank() == 4 && level.dim(0) == levels[0].dim(0) && level.dim(3) == levels[0].dim(3) &&
                      level.dim(1) > 0 && level.dim(2) > 0,
                  "[{}] levels {} and {}, expected [N, H, W, C] with equal N and C", op, levels[0].shape(),
                  level.shape());
  for (int64_t stride : options.strides)
    SACCADE_CHECK(stride >= 1, "[{}] stride {}, expected at least 1", op, stride);
  SACCADE_CHECK(options.size >= 1 && options.size <= 64 && options.sampling_ratio >= 0 &&
                    options.sampling_ratio <= kernels::RoiAlignParams::kMaxSamples,
                "[{}] got size {}, sampling ratio {}, expected 1 to 64, 0 to {}", op, options.size,
                options.sampling_ratio, int{kernels::RoiAlignParams::kMaxSamples});
  const int64_t R = rois.dim(0);
  SACCADE_CHECK(rois.dtype() == DType::kF32 && rois.shape() == (Shape{R, 4}),
                "[{}] rois, got {} {}, expected f32 [R, 4]", op, rois.dtype(), rois.shape());
  for (const Tensor* of : {&level_of_roi, &image_of_roi})
    SACCADE_CHECK(of->dtype() == DType::kI64 && of->shape() == Shape{R},
                  "[{}] levels or images of the rois, got {} {}, expected i64 [{}]", op, of->dtype(),
                  of->shape(), R);
  const Device device = levels[0].device();
  auto there = [device](const Tensor& t) { return t.contiguous().to(device); };
  return run_op(RoiAlign{there(rois),
                         there(level_of_roi),
                         there(image_of_roi),
                         {options.size, options.sampling_ratio, options.aligned, options.strides}},
                levels);
}

}  // namespace saccade
