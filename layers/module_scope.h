// Tells whoever watches the ops (summary, diagnosis, profilers) which module is running.
#pragma once

#include "autograd/scope.h"
#include "core/runtime/profile_range.h"
#include "layers/module.h"

namespace saccade {

class ModuleScope {
 public:
  explicit ModuleScope(const Module& module)
      : outer_(execution().module), range_([&] { return module.type_name(); }) {
    execution().module = &module;
  }
  ~ModuleScope() { execution().module = outer_; }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  const void* outer_;
  ProfileRange range_;
};

}  // namespace saccade
