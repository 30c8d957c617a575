#include "autograd/ops.h"
#include "autograd/ops/losses/loss.h"

namespace saccade {
namespace {

struct VarifocalLoss {
  static constexpr const char* kName = "varifocal_loss";
  static constexpr std::array kCasts{Cast::kF32};
  static constexpr auto macs = no_macs;
  Tensor labels, quality;  // [R]
  double alpha, gamma;
  Shape shape{};

  Tensor forward(Context& ctx, const Tensors& in) {
    shape = in[0].shape();
    Tensor x = as_rows(in[0]), q = quality.to(x.dtype());
    return run_loss(ctx, x, kernels::loss_pieces(x.numel(), kernels::kLossElements),
                    [&](Tensor& partial, Tensor& grad) {
                      kernels::varifocal_loss(x, labels, q, alpha, gamma, partial, grad);
                    });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    return {scale_saved_gradient(ctx, dy, shape)};
  }
};

}  // namespace

Var varifocal_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double alpha,
                   double gamma) {
  Tensor rows = checked_labels(VarifocalLoss::kName, labels, logits.shape(), -1, logits.dim(-1));
  SACCADE_CHECK(is_float(quality.dtype()) && quality.shape() == labels.shape(),
                "[varifocal_loss] quality, got {} {}, expected floating {}", name_of(quality.dtype()),
                quality.shape().to_string(), labels.shape().to_string());
  Device device = logits.device();
  Tensor flat = quality.contiguous().reshape({rows.numel()}).to(device);
  return run_op(VarifocalLoss{rows.to(device), flat, alpha, gamma}, {logits});
}

}  // namespace saccade
