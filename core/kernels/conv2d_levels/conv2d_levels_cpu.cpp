// If the largest map uses Winograd's algorithm, the tiles of all maps are multiplied by weights that are
// transformed once.
#include <optional>

#include "core/kernels/conv2d/winograd_cpu.h"
#include "core/kernels/conv2d_levels/conv2d_levels.h"

namespace saccade::kernels {
namespace {

std::optional<cpu::Winograd> levels_kind(cpu::Pass pass, const Tensor& x, const FeatureLevels& levels,
                                         const Tensor& w, const Tensor& y) {
  if (!takes_full_f32_or_bf16(x, w, y)) return {};
  return cpu::winograd_kind(
      cpu::conv_route(pass, level_of_rows(x, levels, 0), w, level_of_rows(y, levels, 0), same_size_conv(w)));
}

bool takes_levels_forward(const Tensor& x, const FeatureLevels& levels, const Tensor& w, const Tensor&,
                          const Activation&, const Tensor& y) {
  return levels_kind(cpu::Pass::kForward, x, levels, w, y).has_value();
}
void levels_forward_cpu(const Tensor& x, const FeatureLevels& levels, const Tensor& w, const Tensor& bias,
                        Activation act, Tensor& y) {
  cpu::winograd_forward(x, w, bias, *levels_kind(cpu::Pass::kForward, x, levels, w, y), act, y, levels);
}

bool takes_levels_backward_data(const Tensor& dy, const FeatureLevels& levels, const Tensor& w,
                                const Tensor& dx) {
  return levels_kind(cpu::Pass::kBackwardData, dx, levels, w, dy).has_value();
}
void levels_backward_data_cpu(const Tensor& dy, const FeatureLevels& levels, const Tensor& w, Tensor& dx) {
  cpu::winograd_backward_data(dy, w, *levels_kind(cpu::Pass::kBackwardData, dx, levels, w, dy), dx, levels);
}

bool takes_levels_backward_weight(const Tensor& dy, const Tensor& x, const FeatureLevels& levels,
                                  const Tensor& dw) {
  return levels_kind(cpu::Pass::kBackwardWeight, x, levels, dw, dy).has_value();
}
void levels_backward_weight_cpu(const Tensor& dy, const Tensor& x, const FeatureLevels& levels, Tensor& dw) {
  cpu::winograd_backward_weight(dy, x, *levels_kind(cpu::Pass::kBackwardWeight, x, levels, dw, dy), dw,
                                levels);
}

SACCADE_REGISTER_TUNED_KERNEL(conv2d_levels_forward, Device::kCpu, &levels_forward_cpu,
                              &takes_levels_forward);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_levels_backward_data, Device::kCpu, &levels_backward_data_cpu,
                              &takes_levels_backward_data);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_levels_backward_weight, Device::kCpu, &levels_backward_weight_cpu,
                              &takes_levels_backward_weight);

}  // namespace
}  // namespace saccade::kernels
