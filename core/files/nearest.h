// Finds the known name that a misspelt one probably means, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);

// Returns the candidate that shares most with the name: the longest common subsequence relative to the
// lengths, then the smallest edit distance, then the first one. Returns "" if none is near: a third of the
// letters may differ, apart from case and '-' for '_', or a quarter of those at the candidate's beginning (so
// that "bach" means "batch_size"); or the candidate contains the name.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// Returns ", did you mean "NAME"?" for the nearest name, with `quote` around it; "" for "".
std::string did_you_mean(const std::string& nearest, std::string_view quote = "\"");

}  // namespace saccade
