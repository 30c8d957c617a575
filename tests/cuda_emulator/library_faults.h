// What the runtime and the stand-ins for cuDNN and cuBLASLt must refuse or ask for in a test, beyond what
// they do anyway.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace saccade::emulator {

struct LibraryFaults {
  // For cuDNN's engines (cudnn.cpp has 0, 1 and, as a fall-back, 2): those whose plans cannot be finalised,
  // and the workspace that they need, in bytes.
  std::set<int64_t> unfit_engines;
  std::map<int64_t, int64_t> workspaces;
  bool no_engines = false;   // cuDNN's heuristics succeed and find nothing
  bool no_products = false;  // the same for cuBLASLt
  // Any of cudaMalloc, cudaStreamEndCapture and cudaGraphInstantiate.
  std::set<std::string> failing_calls;
};
LibraryFaults& library_faults();

}  // namespace saccade::emulator
