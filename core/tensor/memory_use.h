// What memory is asked for, so that the message of a full GPU can say what held it.
#pragma once

#include <array>
#include <cstdint>

namespace saccade {

enum class MemoryUse : uint8_t { kParameters, kOptimizer, kForward, kBackward, kOther };
inline constexpr std::array kMemoryUses{"parameters", "optimizer", "forward pass", "backward pass", "other"};

// Of this thread's new tensors.
inline thread_local MemoryUse memory_use = MemoryUse::kOther;

// Sets it for the life of the object.
class MemoryUseScope {
 public:
  explicit MemoryUseScope(MemoryUse use) : before_(memory_use) { memory_use = use; }
  ~MemoryUseScope() { memory_use = before_; }
  MemoryUseScope(const MemoryUseScope&) = delete;
  MemoryUseScope& operator=(const MemoryUseScope&) = delete;

 private:
  MemoryUse before_;
};

}  // namespace saccade
