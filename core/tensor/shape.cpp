#include "core/tensor/shape.h"

#include <fmt/ranges.h>

namespace saccade {

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view tag) {
  int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    int64_t da = i <= a.rank() ? a[-i] : 1;
    int64_t db = i <= b.rank() ? b[-i] : 1;
    SACCADE_CHECK(da == db || da == 1 || db == 1, "[{}] shapes {} and {} do not broadcast", tag, a, b);
    out[-i] = da == 1 ? db : da;
  }
  return out;
}

}  // namespace saccade
