#include "core/kernels/mask_points/mask_points.h"

#include <cmath>

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

struct MaskPoint {
  const uint8_t* bitmaps;
  const int64_t* rows;
  const float* points;
  float* inside;
  int64_t height, width, count;

  SACCADE_HD static int64_t nearest(float place, int64_t size) {
    const float at = std::nearbyint(place * static_cast<float>(size) - 0.5f);
    const float last = static_cast<float>(size - 1);
    return static_cast<int64_t>(at < 0 ? 0 : at > last ? last : at);
  }
  SACCADE_HD void operator()(int64_t i) const {
    const int64_t x = nearest(points[2 * i], width), y = nearest(points[2 * i + 1], height);
    inside[i] = bitmaps[(rows[i / count] * height + y) * width + x] != 0 ? 1.0f : 0.0f;
  }
};

void mask_points_generic(const Tensor& bitmaps, const Tensor& rows, const Tensor& points, Tensor& inside) {
  for_each(inside.numel(),
           MaskPoint{bitmaps.data<uint8_t>(), rows.data<int64_t>(), points.data<float>(),
                     inside.data<float>(), bitmaps.dim(1), bitmaps.dim(2), points.dim(1)},
           16);
}

SACCADE_REGISTER_KERNEL(mask_points, &mask_points_generic);

}  // namespace
}  // namespace saccade::kernels
