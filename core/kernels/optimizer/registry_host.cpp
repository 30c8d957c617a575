#include <map>

#include "core/kernels/optimizer/optimizer.h"

namespace saccade::kernels {

Registry<OptimizerSpec>& optimizers() {
  static Registry<OptimizerSpec> registry("optimizer");
  return registry;
}

UpdateKernel& update_kernel(const char* name) {
  static std::map<std::string, UpdateKernel> kernels;
  return kernels.try_emplace(name, name).first->second;
}

}  // namespace saccade::kernels
