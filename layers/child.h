// How modules run: in a scope that tells whoever watches the ops (summary, diagnosis, profilers) which module
// is running.
#pragma once

#include <memory>
#include <utility>

#include "core/runtime/profile_range.h"

namespace saccade {

class Module;

class ModuleScope {
 public:
  explicit ModuleScope(const Module& module);
  ~ModuleScope();
  ModuleScope& operator=(ModuleScope&&) = delete;

 private:
  const void* outer_;
  ProfileRange range_;
};

// module.forward(inputs...) in the module's scope.
template <class M, class... A>
decltype(auto) call(M& module, A&&... inputs) {
  ModuleScope scope(module);
  return module.forward(std::forward<A>(inputs)...);
}

// A module as its owner holds it: norm_(x) calls it.
template <class M>
class Child : public std::shared_ptr<M> {
 public:
  using std::shared_ptr<M>::shared_ptr;
  Child(std::shared_ptr<M> module) : std::shared_ptr<M>(std::move(module)) {}
  template <class... A>
  decltype(auto) operator()(A&&... inputs) const {
    return call(**this, std::forward<A>(inputs)...);
  }
};

}  // namespace saccade
