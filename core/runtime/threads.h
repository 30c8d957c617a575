// The threads of OpenMP, on which kernels and oneDNN run.
#pragma once

namespace saccade {

inline constexpr int kMaxThreads = 1024;

// Before the first parallel loop, while there can still be an error: libgomp ends the program, or crashes, when it does not
// get its threads. Throws InputError when there are to be more than kMaxThreads of them, and Error when the machine starts fewer.
void check_threads();

}  // namespace saccade
