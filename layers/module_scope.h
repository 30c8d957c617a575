// Tells whoever watches the ops (summary, diagnosis) which module is running.
#pragma once

#include "autograd/scope.h"
#include "layers/module.h"

namespace saccade {

class ModuleScope {
 public:
  explicit ModuleScope(const Module& module) : outer_(execution().module) { execution().module = &module; }
  ~ModuleScope() { execution().module = outer_; }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  const void* outer_;
};

}  // namespace saccade
