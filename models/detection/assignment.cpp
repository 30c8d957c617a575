#include "models/detection/assignment.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Invariant between rows: u[i] + v[j] <= cost(i, j), with equality for assigned pairs.
class Solver {
 public:
  Solver(int64_t rows, int64_t columns)
      : columns_(static_cast<size_t>(columns)),
        u_(static_cast<size_t>(rows)),
        v_(columns_),
        shortest_(columns_),
        path_(columns_),
        row_of_(columns_, kNone),
        column_of_(u_.size(), kNone),
        done_(columns_) {}

  // Assigns a column to each row, rows <= columns; false if impossible. row(i) points to the costs of row i.
  template <class Row>
  bool solve(Row row) {
    for (size_t start = 0; start < u_.size(); ++start)
      if (!augment(row, start)) return false;
    return true;
  }
  int64_t column_of(int64_t row) const { return static_cast<int64_t>(column_of_[static_cast<size_t>(row)]); }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  // Runs Dijkstra over columns from row `start` to the nearest free column, then flips the path.
  template <class Row>
  bool augment(Row row, size_t start) {
    std::fill(shortest_.begin(), shortest_.end(), kInfinity);
    std::fill(done_.begin(), done_.end(), 0);
    tree_.clear();
    double reached = 0;
    size_t i = start, sink = kNone;
    while (sink == kNone) {
      const auto* cost = row(i);
      double base = reached - u_[i], lowest = kInfinity;
      size_t best = kNone;
      bool best_free = false;
      for (size_t j = 0; j < columns_; ++j) {
        if (done_[j]) continue;
        double length = base + static_cast<double>(cost[j]) - v_[j];
        if (length < shortest_[j]) {
          shortest_[j] = length;
          path_[j] = i;
        }
        double s = shortest_[j];
        bool is_free = row_of_[j] == kNone;
        if (s < lowest || (s == lowest && is_free && !best_free)) {
          lowest = s;
          best = j;
          best_free = is_free;
        }
      }
      if (lowest == kInfinity) return false;
      reached = lowest;
      done_[best] = 1;
      tree_.push_back(best);
      if (best_free) {
        sink = best;
      } else {
        i = row_of_[best];
      }
    }
    u_[start] += reached;
    for (size_t j : tree_) {
      double slack = reached - shortest_[j];
      if (row_of_[j] != kNone) u_[row_of_[j]] += slack;
      v_[j] -= slack;
    }
    for (size_t j = sink;;) {
      size_t r = path_[j];
      row_of_[j] = r;
      std::swap(column_of_[r], j);
      if (r == start) break;
    }
    return true;
  }

  size_t columns_;
  std::vector<double> u_, v_, shortest_;
  std::vector<size_t> path_, row_of_, column_of_, tree_;
  std::vector<char> done_;
};

// Solves a rows x columns problem; row(r) points to the costs of row r.
template <class T, class Row>
Assignment assign(int64_t rows, int64_t columns, Row row) {
  Assignment result;
  auto fail_infeasible = [&] {
    fail("[assignment] no assignment of {} rows and {} columns has a finite cost", rows, columns);
  };
  if (rows <= columns) {
    Solver solver(rows, columns);
    if (!solver.solve(row)) fail_infeasible();
    for (int64_t r = 0; r < rows; ++r) {
      result.rows.push_back(r);
      result.columns.push_back(solver.column_of(r));
    }
    return result;
  }
  std::vector<T> transposed(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      transposed[static_cast<size_t>(c * rows + r)] = row(static_cast<size_t>(r))[c];
  Solver solver(columns, rows);
  if (!solver.solve([&](size_t c) { return transposed.data() + c * static_cast<size_t>(rows); }))
    fail_infeasible();
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t c = 0; c < columns; ++c) pairs.emplace_back(solver.column_of(c), c);
  std::sort(pairs.begin(), pairs.end());
  for (auto [r, c] : pairs) {
    result.rows.push_back(r);
    result.columns.push_back(c);
  }
  return result;
}

}  // namespace

Assignment linear_sum_assignment(std::span<const double> cost, int64_t rows, int64_t columns) {
  SACCADE_CHECK(rows >= 0 && columns >= 0 && static_cast<int64_t>(cost.size()) == rows * columns,
                "[assignment] {} costs, expected {} x {}", cost.size(), rows, columns);
  for (size_t i = 0; i < cost.size(); ++i)
    SACCADE_CHECK(cost[i] > -kInfinity, "[assignment] the cost of row {}, column {} is {}, expected a number",
                  static_cast<int64_t>(i) / columns, static_cast<int64_t>(i) % columns, cost[i]);
  const double* p = cost.data();
  return assign<double>(rows, columns, [=](size_t r) { return p + static_cast<int64_t>(r) * columns; });
}

Assignment assign_strided(const float* cost, int64_t stride, int64_t stored_rows, int64_t rows,
                          int64_t columns) {
  return assign<float>(rows, columns,
                       [=](size_t r) { return cost + static_cast<int64_t>(r) % stored_rows * stride; });
}

}  // namespace saccade
