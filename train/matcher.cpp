#include "train/matcher.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel.h"

namespace saccade {
namespace {

constexpr double kUnusable = 1e30;

// cost(i, j) of a matrix with at most as many rows as columns.
template <class Cost>
std::vector<int64_t> assign_rows(int64_t rows, int64_t columns, Cost cost) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> u(static_cast<size_t>(rows)), v(static_cast<size_t>(columns)), shortest(v.size());
  std::vector<int64_t> column_of(u.size(), -1), row_of(v.size(), -1), path(v.size()), remaining(v.size());
  std::vector<char> row_seen(u.size()), column_seen(v.size());
  auto at = [](auto& list, int64_t i) -> auto& { return list[static_cast<size_t>(i)]; };
  for (int64_t start = 0; start < rows; ++start) {
    std::fill(shortest.begin(), shortest.end(), infinity);
    std::fill(row_seen.begin(), row_seen.end(), 0);
    std::fill(column_seen.begin(), column_seen.end(), 0);
    for (int64_t j = 0; j < columns; ++j) at(remaining, j) = j;
    int64_t left = columns, i = start, sink = -1;
    double reached = 0;
    while (sink < 0) {
      at(row_seen, i) = 1;
      double lowest = infinity;
      int64_t best = -1;
      for (int64_t k = 0; k < left; ++k) {
        int64_t j = at(remaining, k);
        double length = reached + cost(i, j) - at(u, i) - at(v, j);
        if (length < at(shortest, j)) {
          at(path, j) = i;
          at(shortest, j) = length;
        }
        // A free column ends the path, so it is preferred; then the lowest index.
        double s = at(shortest, j);
        bool is_free = at(row_of, j) < 0;
        bool best_free = best >= 0 && at(row_of, at(remaining, best)) < 0;
        if (s < lowest || (s == lowest && best >= 0 &&
                           (is_free > best_free || (is_free == best_free && j < at(remaining, best))))) {
          lowest = s;
          best = k;
        }
      }
      reached = lowest;
      int64_t j = at(remaining, best);
      if (at(row_of, j) < 0) {
        sink = j;
      } else {
        i = at(row_of, j);
      }
      at(column_seen, j) = 1;
      at(remaining, best) = at(remaining, --left);
    }
    at(u, start) += reached;
    for (int64_t r = 0; r < rows; ++r)
      if (at(row_seen, r) && r != start) at(u, r) += reached - at(shortest, at(column_of, r));
    for (int64_t j = 0; j < columns; ++j)
      if (at(column_seen, j)) at(v, j) -= reached - at(shortest, j);
    // Turn the path around.
    for (int64_t j = sink;;) {
      int64_t r = at(path, j);
      at(row_of, j) = r;
      std::swap(at(column_of, r), j);
      if (r == start) break;
    }
  }
  return column_of;
}

double box_giou(const float* a, const float* b) {
  double ax1 = a[0] - a[2] / 2.0, ay1 = a[1] - a[3] / 2.0, ax2 = a[0] + a[2] / 2.0, ay2 = a[1] + a[3] / 2.0;
  double bx1 = b[0] - b[2] / 2.0, by1 = b[1] - b[3] / 2.0, bx2 = b[0] + b[2] / 2.0, by2 = b[1] + b[3] / 2.0;
  double w = std::max(0.0, std::min(ax2, bx2) - std::max(ax1, bx1));
  double h = std::max(0.0, std::min(ay2, by2) - std::max(ay1, by1));
  double both = w * h, either = (ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - both;
  double hull = (std::max(ax2, bx2) - std::min(ax1, bx1)) * (std::max(ay2, by2) - std::min(ay1, by1));
  return (either > 0 ? both / either : 0) - (hull > 0 ? (hull - either) / hull : 0);
}

// The class cost of one query for every class.
void class_costs(const float* logits, int64_t K, const MatcherOptions& o, std::vector<double>& out) {
  out.resize(static_cast<size_t>(K));
  if (o.softmax) {
    double top = *std::max_element(logits, logits + K), total = 0;
    for (int64_t k = 0; k < K; ++k) total += std::exp(logits[k] - top);
    for (int64_t k = 0; k < K; ++k) out[static_cast<size_t>(k)] = -std::exp(logits[k] - top) / total;
    return;
  }
  for (int64_t k = 0; k < K; ++k) {
    double p = 1 / (1 + std::exp(-static_cast<double>(logits[k])));
    double positive = o.focal_alpha * std::pow(1 - p, o.focal_gamma) * -std::log(p + 1e-8);
    double negative = (1 - o.focal_alpha) * std::pow(p, o.focal_gamma) * -std::log(1 - p + 1e-8);
    out[static_cast<size_t>(k)] = positive - negative;
  }
}

Assignment match_image(const float* logits, const float* boxes, int64_t Q, int64_t K, const Target& target,
                       const MatcherOptions& o, bool binary) {
  int64_t T = static_cast<int64_t>(target.labels.size());
  std::vector<double> cost(static_cast<size_t>(Q * T)), classes;
  for (int64_t q = 0; q < Q && T > 0; ++q) {
    // Proposals use column 0 alone.
    class_costs(logits + q * K, binary ? 1 : K, o, classes);
    const float* box = boxes + q * 4;
    for (int64_t t = 0; t < T; ++t) {
      const float* truth = target.boxes.data() + t * 4;
      double distance = 0;
      for (int i = 0; i < 4; ++i) distance += std::abs(static_cast<double>(box[i]) - truth[i]);
      double of_class = classes[static_cast<size_t>(binary ? 0 : target.labels[static_cast<size_t>(t)])];
      cost[static_cast<size_t>(q * T + t)] =
          o.class_cost * of_class + o.bbox_cost * distance - o.giou_cost * box_giou(box, truth);
    }
  }
  return linear_sum_assignment(cost, Q, T);
}

}  // namespace

Assignment linear_sum_assignment(std::span<const double> cost, int64_t rows, int64_t columns) {
  SACCADE_CHECK(static_cast<int64_t>(cost.size()) == rows * columns, "[matcher] {} costs for {} x {}",
                cost.size(), rows, columns);
  auto usable = [&](int64_t i, int64_t j) {
    double c = cost[static_cast<size_t>(i * columns + j)];
    return std::isfinite(c) ? c : kUnusable;
  };
  Assignment result;
  if (rows <= columns) {
    result.columns = assign_rows(rows, columns, usable);
    for (int64_t i = 0; i < rows; ++i) result.rows.push_back(i);
    return result;
  }
  std::vector<int64_t> row_of =
      assign_rows(columns, rows, [&](int64_t j, int64_t i) { return usable(i, j); });
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t j = 0; j < columns; ++j) pairs.emplace_back(row_of[static_cast<size_t>(j)], j);
  std::sort(pairs.begin(), pairs.end());
  for (auto [i, j] : pairs) {
    result.rows.push_back(i);
    result.columns.push_back(j);
  }
  return result;
}

std::vector<Assignment> match(const Tensor& logits, const Tensor& boxes, const std::vector<Target>& targets,
                              const MatcherOptions& options, bool binary, int64_t begin, int64_t end) {
  int64_t N = logits.dim(0), Q = logits.dim(1), K = logits.dim(2);
  SACCADE_CHECK(static_cast<int64_t>(targets.size()) == N, "[matcher] {} targets for {} images",
                targets.size(), N);
  for (const Target& target : targets)
    for (int64_t label : target.labels)
      SACCADE_CHECK(label >= 0 && label < K, "[matcher] image {}: class {} of {}", target.image_id, label, K);
  std::vector<float> l = logits.to_vector<float>(), b = boxes.to_vector<float>();
  std::vector<Assignment> result(targets.size());
  parallel_for(N, 1, [&](int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n)
      result[static_cast<size_t>(n)] =
          match_image(l.data() + (n * Q + begin) * K, b.data() + (n * Q + begin) * 4, end - begin, K,
                      targets[static_cast<size_t>(n)], options, binary);
  });
  return result;
}

}  // namespace saccade
