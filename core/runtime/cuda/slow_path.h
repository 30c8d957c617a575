// What NVIDIA's libraries have no algorithm for goes to generic kernels, which can be a hundred times slower.
#pragma once

#include <string>

namespace saccade::cuda {

// Says so on stderr, once for each `what`: an operation and its shape.
void note_slow_path(const std::string& what);

}  // namespace saccade::cuda
