// Files that a command writes at its end.
#pragma once

#include <string>

namespace saccade {

// Throws InputError when no file can be written at `path`, so that a long command fails before its work and
// not after.
// "" is fine.
void check_output_file(const std::string& path);

}  // namespace saccade
