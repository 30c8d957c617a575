// The known name that a misspelt one probably meant, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Number of inserted, deleted, replaced or swapped neighbouring characters that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest edit distance, the first of equals; "" when there are no candidates.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace saccade
