#include "core/kernels/mask_points/mask_points.h"

#include <cmath>

#include "core/runtime/launch.h"
#include "core/tensor/philox.h"

namespace saccade::kernels {
namespace {

// Draws four coordinates.
struct RandomPoints {
  const int64_t* rows;
  uint64_t key;
  float* points;
  int64_t coordinates, blocks;  // of a row

  SACCADE_HD void operator()(int64_t i) const {
    const int64_t row = i / blocks, block = i % blocks;
    const Philox bits =
        Philox::generate(key, static_cast<uint64_t>(rows[2 * row]),
                         static_cast<uint64_t>(rows[2 * row + 1]) << 32 | static_cast<uint64_t>(block));
    float* out = points + row * coordinates;
    for (int64_t at = 0; at < 4 && 4 * block + at < coordinates; ++at)
      out[4 * block + at] = uniform_from_bits(bits.x[at]);
  }
};

void random_points_generic(const Tensor& rows, uint64_t key, Tensor& points) {
  const int64_t coordinates = 2 * points.dim(1), blocks = (coordinates + 3) / 4;
  for_each(points.dim(0) * blocks,
           RandomPoints{rows.data<int64_t>(), key, points.data<float>(), coordinates, blocks}, 64);
}

struct MaskPoint {
  const int64_t *runs, *begins, *rows;
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
    const int64_t row = rows[i / count], pixel = x * height + y;
    int64_t low = begins[row], high = begins[row + 1];  // the first run that ends after the pixel
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (runs[2 * middle + 1] > pixel)
        high = middle;
      else
        low = middle + 1;
    }
    inside[i] = low < begins[row + 1] && runs[2 * low] <= pixel ? 1.0f : 0.0f;
  }
};

void mask_points_generic(const Tensor& runs, const Tensor& begins, int64_t height, int64_t width,
                         const Tensor& rows, const Tensor& points, Tensor& inside) {
  for_each(inside.numel(),
           MaskPoint{runs.data<int64_t>(), begins.data<int64_t>(), rows.data<int64_t>(), points.data<float>(),
                     inside.data<float>(), height, width, points.dim(1)},
           32);
}

SACCADE_REGISTER_KERNEL(random_points, &random_points_generic);
SACCADE_REGISTER_KERNEL(mask_points, &mask_points_generic);

}  // namespace
}  // namespace saccade::kernels
