// Named stretches of a thread's time, for profilers. The CUDA backend hands them on as NVTX ranges when a
// profiler that reads them has started the program (Nsight Systems);
// otherwise a range costs the reading of one pointer.
#pragma once

#include <string>

namespace saccade {

struct ProfileHooks {
  void (*push)(const char* name);
  void (*pop)();
};
// Set while nobody is inside of a range, at the start of the program or by a test; nullptr: nobody watches.
inline const ProfileHooks* profile_hooks = nullptr;

class ProfileRange {
 public:
  // name() gives a string; it is called only when somebody watches.
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
