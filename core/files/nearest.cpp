#include "core/files/nearest.h"

#include <algorithm>

namespace saccade {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = std::move(last);
    last = std::move(row);
    row.assign(b.size() + 1, i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

static size_t common_subsequence(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1, 0), last;
  for (char c : a) {
    last = row;
    for (size_t j = 1; j <= b.size(); ++j)
      row[j] = c == b[j - 1] ? last[j - 1] + 1 : std::max(last[j], row[j - 1]);
  }
  return row[b.size()];
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kMaxCompared = 64;  // no real name is longer, and the time grows with the length
  name = name.substr(0, kMaxCompared);
  std::string best;
  double best_likeness = -1;
  size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    double likeness = 2.0 * static_cast<double>(common_subsequence(name, candidate)) /
                      static_cast<double>(name.size() + candidate.size() + 1);
    size_t distance = edit_distance(name, candidate);
    if (likeness > best_likeness || (likeness == best_likeness && distance < best_distance)) {
      best = candidate;
      best_likeness = likeness;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace saccade
