// The rectangular linear sum assignment problem.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace saccade {

// Pairs, ascending by row. There are min(rows, columns) of them.
struct Assignment {
  std::vector<int64_t> rows, columns;
};

// The assignment of least total cost of a rows x columns matrix (row-major), by shortest augmenting paths
// (Crouse 2016, "On implementing 2D rectangular assignment algorithms"). Among equal paths one that ends is
// taken before one that continues, then the lowest index, so the result is a function of the matrix alone.
// +inf forbids a pair. Throws Error for a NaN or -inf (naming its place) and when no assignment is possible.
// O(min^2 max) time.
Assignment linear_sum_assignment(std::span<const double> cost, int64_t rows, int64_t columns);

// The same for finite f32 costs in rows of any stride, where row r of the problem is row r % stored_rows of
// the matrix: with rows = k * stored_rows every stored row is assigned k times.
Assignment assign_strided(const float* cost, int64_t stride, int64_t stored_rows, int64_t rows,
                          int64_t columns);

}  // namespace saccade
