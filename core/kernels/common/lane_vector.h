// Scratch memory of the CPU kernels, aligned to a cache line, which malloc does not promise: a vector of
// sixteen floats that straddles two lines costs twice as much.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace saccade::cpu {

template <class T>
struct LaneAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LaneAllocator() = default;
  template <class U>
  LaneAllocator(const LaneAllocator<U>&) {}

  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* p, size_t) { ::operator delete(p, kLine); }
  bool operator==(const LaneAllocator&) const = default;
};

template <class T>
using LaneVector = std::vector<T, LaneAllocator<T>>;

}  // namespace saccade::cpu
