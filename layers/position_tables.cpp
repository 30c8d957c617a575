#include "layers/position_tables.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "autograd/ops.h"
#include "autograd/scope.h"
#include "layers/resampling.h"

namespace saccade {
namespace {

// maps [rows, columns, C] -> [to_rows, to_columns, C], one axis after the other.
Tensor resample(const Tensor& maps, const Tensor& by_row, const Tensor& by_column) {
  NoGrad no_grad;
  ExecutionScope scope;
  execution().compute = DType::kF32;
  execution().math = MathMode::kExact;
  const int64_t rows = maps.dim(0), columns = maps.dim(1), C = maps.dim(2), height = by_row.dim(0);
  Var y = matmul(Var(by_row), Var(maps.contiguous().reshape({rows, columns * C})));
  return matmul(Var(by_column), reshape(y, {height, columns, C})).value();
}

// The side of a square with so many cells, with up to `extra` other rows.
struct Square {
  int64_t side, extra;
};
std::optional<Square> square_of(int64_t rows, int64_t extra) {
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(rows)));
  if (side < 1 || rows - side * side > extra) return std::nullopt;
  return Square{side, rows - side * side};
}

Tensor resize_grid(const Tensor& values, const Shape& to, Resampling resampling, int64_t extra) {
  if (values.rank() != 3 || to.rank() != 3 || values.dim(0) != 1 || to[0] != 1 || values.dim(2) != to[2])
    return {};
  const auto before = square_of(values.dim(1), extra), after = square_of(to[1], extra);
  if (!before || !after || before->extra != after->extra) return {};
  const int64_t C = to[2];
  const Tensor axis = resampling_matrix(resampling, before->side, after->side);
  const Tensor grid = values.slice(1, before->extra, values.dim(1)).reshape({before->side, before->side, C});
  Tensor out = Tensor::empty(to);
  out.slice(1, 0, after->extra).copy_from(values.slice(1, 0, before->extra));
  out.slice(1, after->extra, to[1])
      .copy_from(resample(grid, axis, axis).reshape({1, after->side * after->side, C}));
  return out;
}

// Returns where the entries of an axis of `from` are placed on one of `to`: at 0, the middle, and on either
// side of it at 1, 1 + q, 1 + q + q^2 ..., with q such that the last one is at the end.
std::vector<float> spread_places(int64_t from, int64_t to) {
  double low = 1.01, high = 1.5, q = 0;
  while (high - low > 1e-6) {
    q = (low + high) / 2;
    const double last = (1 - std::pow(q, static_cast<double>(from / 2))) / (1 - q);
    (last > static_cast<double>(to / 2) ? high : low) = q;
  }
  std::vector<float> places(static_cast<size_t>(from));
  double at = 1;
  for (int64_t i = 0; i < from / 2; ++i) {
    places[static_cast<size_t>(from / 2 + 1 + i)] = static_cast<float>(at);
    places[static_cast<size_t>(from / 2 - 1 - i)] = static_cast<float>(-at);
    at += std::pow(q, static_cast<double>(i + 1));
  }
  return places;
}

// [to, from]: interpolates linearly between those places; beyond them the end values continue.
Tensor spread_matrix(int64_t from, int64_t to) {
  const std::vector<float> places = spread_places(from, to);
  Tensor t = Tensor::zeros({to, from});
  for (int64_t i = 0; i < to; ++i) {
    const auto at = static_cast<float>(i - to / 2);
    float* row = t.data<float>() + i * from;
    const auto right = std::ranges::lower_bound(places, at) - places.begin();
    if (right == 0 || right == from) {
      row[right == 0 ? 0 : from - 1] = 1;
      continue;
    }
    const float left = places[static_cast<size_t>(right - 1)],
                fraction = (at - left) / (places[static_cast<size_t>(right)] - left);
    row[right - 1] = 1 - fraction;
    row[right] = fraction;
  }
  return t;
}

// matrix(from, to) resamples one axis of the square whose cells the rows are.
template <class Matrix>
Tensor resize_rows(const Tensor& values, const Shape& to, const Matrix& matrix) {
  if (values.rank() != 2 || to.rank() != 2 || values.dim(1) != to[1]) return {};
  const auto before = square_of(values.dim(0), 0), after = square_of(to[0], 0);
  if (!before || !after || before->side % 2 == 0 || after->side % 2 == 0) return {};
  const Tensor axis = matrix(before->side, after->side);
  return resample(values.reshape({before->side, before->side, to[1]}), axis, axis).reshape(to);
}

}  // namespace

Tensor resize_positions(const Tensor& values, const Shape& to) {
  return resize_grid(values, to, Resampling::kSmoothCubic, 2);
}

Tensor resize_positions_linearly(const Tensor& values, const Shape& to) {
  return resize_grid(values, to, Resampling::kLinear, 1);
}

Tensor spread_bias_rows(const Tensor& values, const Shape& to) {
  return resize_rows(values, to, &spread_matrix);
}

Tensor resize_bias_rows(const Tensor& values, const Shape& to) {
  return resize_rows(values, to, [](int64_t from, int64_t side) {
    return resampling_matrix(Resampling::kCubic, from, side);
  });
}

Tensor resize_bias_maps(const Tensor& values, const Shape& to) {
  if (values.rank() != 3 || to.rank() != 3 || values.dim(0) != to[0]) return {};
  for (int axis : {1, 2})
    if (values.dim(axis) % 2 == 0 || to[axis] % 2 == 0) return {};
  const Tensor rows = resampling_matrix(Resampling::kCubic, values.dim(1), to[1]),
               columns = resampling_matrix(Resampling::kCubic, values.dim(2), to[2]);
  return resample(values.permute(std::vector<int>{1, 2, 0}), rows, columns)
      .permute(std::vector<int>{2, 0, 1})
      .contiguous();
}

}  // namespace saccade
