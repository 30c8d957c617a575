// In place of core/cuda in a build without the CUDA toolkit.
#include "core/device.h"

namespace saccade {

const std::string& cuda_problem() {
  static const std::string problem = "this program was built without the CUDA toolkit";
  return problem;
}

}  // namespace saccade
