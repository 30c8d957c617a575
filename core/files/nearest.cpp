#include "core/files/nearest.h"

#include <algorithm>

#include "core/files/text.h"

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

// Lower case, with '_' for '-'.
static std::string plain_name(std::string_view name) {
  std::string plain = lower_case(std::string(name));
  std::ranges::replace(plain, '-', '_');
  return plain;
}

static bool is_near(const std::string& name, const std::string& candidate) {
  if (edit_distance(name, candidate) <= std::max(name.size(), candidate.size()) / 3) return !name.empty();
  constexpr size_t kShortest = 3;  // shorter names are part of too many
  if (name.size() < kShortest || candidate.size() < name.size()) return false;
  if (candidate.find(name) != std::string::npos) return true;
  for (size_t length = name.size() - 1; length <= name.size() + 1; ++length)
    if (edit_distance(name, std::string_view(candidate).substr(0, length)) <= name.size() / 4) return true;
  return false;
}

std::string nearest_name(std::string_view given, const std::vector<std::string>& candidates) {
  constexpr size_t kMaxCompared = 64;  // no real name is longer, and the time grows with the length
  const std::string name = plain_name(given.substr(0, kMaxCompared));
  std::string best;
  double best_likeness = -1;
  size_t best_distance = 0;
  for (const std::string& known : candidates) {
    const std::string candidate = plain_name(known);
    if (!is_near(name, candidate)) continue;
    double likeness = 2.0 * static_cast<double>(common_subsequence(name, candidate)) /
                      static_cast<double>(name.size() + candidate.size() + 1);
    size_t distance = edit_distance(name, candidate);
    if (likeness > best_likeness || (likeness == best_likeness && distance < best_distance)) {
      best = known;
      best_likeness = likeness;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& nearest, std::string_view quote) {
  std::string text;
  if (!nearest.empty())
    text.append(", did you mean ").append(quote).append(nearest).append(quote).append("?");
  return text;
}

}  // namespace saccade
