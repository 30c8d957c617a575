// Finds the known name that a misspelt one probably means, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);

// Returns the candidate that shares most with the name: the longest common subsequence relative to the
// lengths (so that "bach" means "batch_size" and not "val"), then the smallest edit distance, then the first
// one. Returns "" if there are no candidates.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace saccade
