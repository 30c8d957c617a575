#include "core/kernels/roi_levels/roi_levels.h"

#include <cmath>

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

struct RoiLevel {
  const float* rois;
  int64_t* level;
  float side;
  int64_t count;
  SACCADE_HD void operator()(int64_t r) const {
    const float* b = rois + 4 * r;
    const float own = std::sqrt((b[2] - b[0]) * (b[3] - b[1])) / side + 1e-6f;
    int64_t l = 0;
    for (float limit = 2; l + 1 < count && own >= limit; limit *= 2) ++l;
    level[r] = l;
  }
};

void roi_levels_generic(const Tensor& rois, double side, int64_t count, Tensor& level) {
  for_each(level.numel(),
           RoiLevel{rois.data<float>(), level.data<int64_t>(), static_cast<float>(side), count}, 16);
}

SACCADE_REGISTER_KERNEL(roi_levels, &roi_levels_generic);

}  // namespace
}  // namespace saccade::kernels
