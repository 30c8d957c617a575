// The rectangular linear sum assignment problem.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace saccade {

// Pairs in ascending order of their rows. There are min(rows, columns) of them.
struct Assignment {
  std::vector<int64_t> rows, columns;
};

// Finds the assignment of least total cost for a rows x columns matrix (row-major) by shortest augmenting
// paths (Crouse 2016, "On implementing 2D rectangular assignment algorithms"). Among equal paths it prefers
// one that ends to one that continues, then the lowest index, so the result depends only on the matrix. +inf
// forbids a pair. Throws Error for a NaN or -inf (naming its position) and if no assignment is possible.
// O(min^2 max) time.
Assignment linear_sum_assignment(std::span<const double> cost, int64_t rows, int64_t columns);

// The same for finite f32 costs in rows of any stride. Row r of the problem is row r % stored_rows of the
// matrix: with rows = k * stored_rows every stored row is assigned k times.
Assignment assign_strided(const float* cost, int64_t stride, int64_t stored_rows, int64_t rows,
                          int64_t columns);

}  // namespace saccade
