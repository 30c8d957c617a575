// Named ranges of a thread's time, for profilers. The CUDA backend passes them on as NVTX ranges if a
// profiler that reads them (Nsight Systems) has started the program; otherwise a range costs only the read of
// one pointer.
#pragma once

#include <string>

namespace saccade {

struct ProfileHooks {
  void (*push)(const char* name);
  void (*pop)();
};
// Set while no range is open, at the start of the program or by a test; nullptr if no profiler listens.
inline const ProfileHooks* profile_hooks = nullptr;

class ProfileRange {
 public:
  // name() returns a string; it is called only if a profiler listens.
  template <class Name>
  explicit ProfileRange(const Name& name) : hooks_(profile_hooks) {
    if (hooks_) hooks_->push(std::string(name()).c_str());
  }
  ~ProfileRange() {
    if (hooks_) hooks_->pop();
  }
  ProfileRange& operator=(ProfileRange&&) = delete;

 private:
  const ProfileHooks* hooks_;
};

}  // namespace saccade
