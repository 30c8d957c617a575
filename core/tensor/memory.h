// What the machine has left, and the control groups (cgroups, versions 1 and 2) that limit this process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Bytes that this process may still take: the least of the machine's free memory and swap, the limits of its
// control groups and its limits of address space and of data. INT64_MAX where nothing is known.
int64_t available_memory();

// The folders of the group that this process is in for a controller ("memory", "cpu") and of those that it
// lies in. In a container the path of the host is not there, but the top is;
// files of a folder may be missing.
std::vector<std::string> control_group_folders(std::string_view controller);

}  // namespace saccade
