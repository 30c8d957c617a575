// The threads of OpenMP, on which kernels and oneDNN run.
#pragma once

namespace saccade {

// More threads for each processor, and more than 64, are a mistake: they wait for each other.
int max_threads();

// Before the first parallel loop, while there can still be an error: libgomp ends the program, or crashes, when it does not
// get its threads. Throws InputError when there are to be more than max_threads(), and Error when the machine starts fewer.
void check_threads();

}  // namespace saccade
