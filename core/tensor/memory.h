// What the machine has left.
#pragma once

#include <cstdint>

namespace saccade {

// Bytes that this process may still take: the least of the machine's free memory and swap, the limits of its
// control groups and its limits of address space and of data. INT64_MAX where nothing is known.
int64_t available_memory();

}  // namespace saccade
