#include "autograd/ops.h"
#include "autograd/ops/losses/loss.h"

namespace saccade {
namespace {

struct CrossEntropy {
  static constexpr const char* kName = "cross_entropy";
  static constexpr std::array kCasts{Cast::kF32};
  static constexpr auto macs = no_macs;
  Tensor labels, weights;  // [R], [K] or undefined
  double smoothing;
  LossParts parts;

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor x = in[0].contiguous();
    Tensor w = weights.defined() ? weights.to(x.dtype()).contiguous() : weights;
    return run_loss(ctx, x, parts, x.dim(0), kernels::kLossRows, [&](Tensor& partial, Tensor& grad) {
      kernels::cross_entropy_loss(x, labels, w, smoothing, partial, grad);
    });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    return {scale_saved_gradient(ctx, dy, ctx.saved(0).shape())};
  }
};

}  // namespace

Var cross_entropy(const Var& logits, const Tensor& labels, const Tensor& class_weights,
                  double label_smoothing, LossParts parts) {
  SACCADE_CHECK(logits.rank() == 2, "[cross_entropy] logits, got {}, expected [R, K]", logits.shape());
  int64_t classes = logits.dim(1);
  Tensor rows = checked_labels(CrossEntropy::kName, labels, logits.shape(), -1, classes - 1);
  SACCADE_CHECK(!class_weights.defined() ||
                    (is_float(class_weights.dtype()) && class_weights.shape() == Shape({classes})),
                "[cross_entropy] class weights, got {} {}, expected floating [{}]", class_weights.dtype(),
                class_weights.shape(), classes);
  SACCADE_CHECK(label_smoothing >= 0 && label_smoothing <= 1,
                "[cross_entropy] label smoothing, got {}, expected 0 to 1", label_smoothing);
  Device device = logits.device();
  Tensor weights = class_weights.defined() ? class_weights.to(device) : class_weights;
  return run_op(CrossEntropy{rows.to(device), weights, label_smoothing, parts}, {logits});
}

}  // namespace saccade
