// The known name that a misspelt one probably meant, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Number of inserted, deleted, replaced or swapped neighbouring characters that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that shares most with the name: the longest common subsequence relative to the lengths (so
// that "bach" means "batch_size" and not "val"), then the smallest edit distance, then the first. "" when
// there are no candidates.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace saccade
