// Bipartite matching of predictions with objects (Carion et al. 2020): costs of class, box distance and
// overlap, and the assignment of least total cost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "data/batch.h"

namespace saccade {

// Pairs, ascending by row. There are min(rows, columns) of them.
struct Assignment {
  std::vector<int64_t> rows, columns;
};

// The assignment of least total cost of a rows x columns matrix (row-major), by shortest augmenting paths
// (Crouse 2016, "On implementing 2D rectangular assignment algorithms"). Among equal paths the lowest index
// is taken, so the result is a function of the matrix alone. Infinite and NaN costs count as 1e30: a broken
// prediction still gets a partner, and the loss then shows that it is broken. O(min^2 max) time, O(rows +
// columns) memory.
Assignment linear_sum_assignment(std::span<const double> cost, int64_t rows, int64_t columns);

struct MatcherOptions {
  double class_cost = 2, bbox_cost = 5, giou_cost = 2;
  double focal_alpha = 0.25, focal_gamma = 2;
  bool softmax = false;  // class cost -softmax probability (DETR), else the difference of the focal terms
};

// For every image the assignment of its queries (rows) to its objects (columns).
// logits [N, Q, K], boxes [N, Q, 4] as (cx, cy, w, h); any floating dtype; computed in f64 on the CPU.
// binary: all objects have class 0 (two-stage proposals). Queries begin..end of each image take part.
std::vector<Assignment> match(const Tensor& logits, const Tensor& boxes, const std::vector<Target>& targets,
                              const MatcherOptions& options, bool binary, int64_t begin, int64_t end);

}  // namespace saccade
