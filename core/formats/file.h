// Whole files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Throws InputError "path: cannot read the file: reason".
std::vector<uint8_t> read_file(const std::string& path);
// Writes a temporary file next to `path` and renames it, so that no reader ever sees half a file. Throws
// InputError naming the path and the reason.
void write_file(const std::string& path, std::span<const uint8_t> bytes);
void write_file(const std::string& path, std::string_view text);

}  // namespace saccade
