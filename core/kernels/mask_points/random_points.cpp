#include "core/kernels/mask_points/mask_points.h"
#include "core/runtime/launch.h"
#include "core/tensor/philox.h"

namespace saccade::kernels {
namespace {

// Four coordinates.
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

SACCADE_REGISTER_KERNEL(random_points, &random_points_generic);

}  // namespace
}  // namespace saccade::kernels
