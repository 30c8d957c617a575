// Blocks of the driver's pool that were freed, for the next request of their size. A call of the driver costs
// the host about as much as a launch, and a training step frees and asks some thousand times.
#pragma once

#include <bit>
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "core/tensor/integers.h"

namespace saccade::cuda {

// All blocks belong to the order of one stream, so that the next owner's work comes after the last one's.
class BlockCache {
 public:
  static constexpr size_t kLargest = size_t{16} << 20;

  // Few sizes, at most an eighth larger than what is asked for.
  static size_t size_for(size_t bytes) {
    constexpr size_t kSmallest = 512, kSteps = 8;
    const size_t step = bytes <= kSmallest * kSteps ? kSmallest : std::bit_floor(bytes) / kSteps;
    return static_cast<size_t>(round_up(static_cast<int64_t>(bytes), static_cast<int64_t>(step)));
  }

  // nullptr: there is none.
  void* take(size_t size) {
    const auto found = free_.find(size);
    if (found == free_.end() || found->second.empty()) return nullptr;
    void* block = found->second.back();
    found->second.pop_back();
    bytes_ -= size;
    return block;
  }
  // False: it is too much.
  bool put(void* block, size_t size) {
    if (bytes_ + size > most_bytes_) return false;
    free_[size].push_back(block);
    bytes_ += size;
    return true;
  }
  std::vector<void*> take_all() {
    std::vector<void*> all;
    for (auto& [size, blocks] : free_) all.insert(all.end(), blocks.begin(), blocks.end());
    free_.clear();
    bytes_ = 0;
    return all;
  }
  void set_most_bytes(size_t bytes) { most_bytes_ = bytes; }

 private:
  std::unordered_map<size_t, std::vector<void*>> free_;
  size_t bytes_ = 0, most_bytes_ = 0;
};

}  // namespace saccade::cuda
