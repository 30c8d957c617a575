// The memory that the machine has left, and the control groups (cgroups, versions 1 and 2) of this process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Returns the bytes that this process may still allocate: the least of the machine's free memory and swap,
// the limits of its control groups and its limits of address space and data. INT64_MAX if nothing is known.
int64_t available_memory();

// Returns the folders of this process's control group for a controller ("memory", "cpu") and of its
// ancestors. In a container the group's path on the host does not exist, but the root does. A folder may lack
// files.
std::vector<std::string> control_group_folders(std::string_view controller);

}  // namespace saccade
