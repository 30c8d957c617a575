// The registries that fields of the schema name (Rule.registry in configs/rules.proto).
#pragma once

#include <string>
#include <vector>

namespace saccade {

// The names that the registry holds. Throws Error for one that does not exist.
std::vector<std::string> registered_names(const std::string& registry);

}  // namespace saccade
