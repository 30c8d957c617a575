// The fields of configs/saccade.proto as markdown: the second part of configs/README.md.
#pragma once

#include <string>

namespace saccade {

// A section per message, with a table of its fields: type, default, allowed values and meaning.
std::string config_tables();

}  // namespace saccade
