// What the runtime and the stand-ins of cuDNN and cuBLASLt are to refuse or to ask for,
// beyond what they do anyway. For tests.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace saccade::emulator {

struct LibraryFaults {
  // Of cuDNN's engines (cudnn.cpp has 0, 1 and, as a fall-back, 2): whose plans cannot be finalised, and what
  // they need of workspace, in bytes.
  std::set<int64_t> unfit_engines;
  std::map<int64_t, int64_t> workspaces;
  bool no_engines = false;   // cuDNN's heuristics succeed and find nothing
  bool no_products = false;  // cuBLASLt's likewise
  // Of cudaMalloc, cudaStreamEndCapture and cudaGraphInstantiate.
  std::set<std::string> failing_calls;
};
LibraryFaults& library_faults();

}  // namespace saccade::emulator
