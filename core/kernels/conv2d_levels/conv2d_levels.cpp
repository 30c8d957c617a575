#include "core/kernels/conv2d_levels/conv2d_levels.h"

#include "core/kernels/elementwise/elementwise.h"

namespace saccade::kernels {
namespace {

void levels_forward_generic(const Tensor& x, const FeatureLevels& levels, const Tensor& w, const Tensor& bias,
                            Activation act, Tensor& y) {
  for (int64_t l = 0; l < levels.size(); ++l) {
    Tensor map = level_of_rows(y, levels, l);
    conv2d_forward(level_of_rows(x, levels, l), w, bias, same_size_conv(w), act, map);
  }
}

void levels_backward_data_generic(const Tensor& dy, const FeatureLevels& levels, const Tensor& w,
                                  Tensor& dx) {
  for (int64_t l = 0; l < levels.size(); ++l) {
    Tensor map = level_of_rows(dx, levels, l);
    conv2d_backward_data(level_of_rows(dy, levels, l), w, same_size_conv(w), map);
  }
}

void levels_backward_weight_generic(const Tensor& dy, const Tensor& x, const FeatureLevels& levels,
                                    Tensor& dw) {
  Tensor of_level = dw.empty_like();
  for (int64_t l = 0; l < levels.size(); ++l) {
    conv2d_backward_weight(level_of_rows(dy, levels, l), level_of_rows(x, levels, l), same_size_conv(dw),
                           l == 0 ? dw : of_level);
    if (l > 0) binary(BinaryOp::kAdd, dw, of_level, dw);
  }
}

SACCADE_REGISTER_KERNEL(conv2d_levels_forward, &levels_forward_generic);
SACCADE_REGISTER_KERNEL(conv2d_levels_backward_data, &levels_backward_data_generic);
SACCADE_REGISTER_KERNEL(conv2d_levels_backward_weight, &levels_backward_weight_generic);

}  // namespace
}  // namespace saccade::kernels
