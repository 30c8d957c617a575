#include "core/tensor/large_blocks.h"

#include <sys/mman.h>

#include <algorithm>

#include "core/tensor/memory.h"

namespace saccade {
namespace {

constexpr size_t kPiece = size_t{64} << 10;  // sizes are multiples of this
// Memory comes as huge pages: one page fault and one TLB entry for two megabytes instead of 512.
constexpr size_t kHuge = size_t{2} << 20;
// The least size of a request if there is plenty: only address space is used until the memory is touched.
constexpr size_t kAtOnce = size_t{64} << 20;

size_t whole(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

char* map(char* wish, size_t size) {
  void* pages = mmap(wish, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<char*>(pages);
}

// Maps whole huge pages anywhere. Returns null if the system has no more.
char* map_aligned(size_t size) {
  char* const first = map(nullptr, size + kHuge);
  if (!first) return nullptr;
  const size_t before = (kHuge - reinterpret_cast<uintptr_t>(first) % kHuge) % kHuge;
  if (before > 0) munmap(first, before);
  if (before < kHuge) munmap(first + before + size, kHuge - before);
  return first + before;
}

}  // namespace

size_t LargeBlocks::room_for(size_t bytes) { return whole(bytes, kPiece); }

void LargeBlocks::insert(char* begin, size_t size) {
  const auto place = by_address_.emplace(begin, size).first;
  try {
    by_size_.emplace(size, begin);
  } catch (...) {
    by_address_.erase(place);
    throw;
  }
  free_bytes_ += static_cast<int64_t>(size);
}

void LargeBlocks::erase(char* begin, size_t size) {
  by_address_.erase(begin);
  by_size_.erase({size, begin});
  free_bytes_ -= static_cast<int64_t>(size);
}

void* LargeBlocks::take(size_t room) {
  const auto best = by_size_.lower_bound({room, nullptr});
  if (best == by_size_.end()) return nullptr;
  const auto [size, begin] = *best;
  erase(begin, size);
  // Take the high end, since the memory grows towards low addresses.
  if (size > room) insert(begin, size - room);
  return begin + (size - room);
}

bool LargeBlocks::grow(size_t room) {
  const int64_t left = available_memory();
  if (static_cast<int64_t>(room) > left) return false;
  auto at_least = [&](size_t missing) {
    const size_t size = whole(missing, kHuge);
    return static_cast<int64_t>(4 * kAtOnce) < left ? std::max(size, kAtOnce) : size;
  };
  // A free piece at the low end needs only the missing bytes, if they can be mapped just below it.
  const auto end = by_address_.find(lowest_);
  size_t size = at_least(room - (end != by_address_.end() ? end->second : 0));
  char* begin = lowest_ ? map(lowest_ - size, size) : nullptr;
  if (begin && begin != lowest_ - size) {
    munmap(begin, size);
    begin = nullptr;
  }
  if (!begin) {
    size = at_least(room);
    begin = map_aligned(size);
  }
  if (!begin) return false;
#ifdef MADV_HUGEPAGE
  madvise(begin, size, MADV_HUGEPAGE);  // a hint: everything works without huge pages too
#endif
  lowest_ = begin;
  give_back(begin, size);
  return true;
}

void LargeBlocks::give_back(void* block, size_t room) noexcept {
  auto* begin = static_cast<char*>(block);
  try {
    const auto after = by_address_.find(begin + room);
    if (after != by_address_.end()) {
      const size_t more = after->second;
      erase(begin + room, more);
      room += more;
    }
    auto before = by_address_.lower_bound(begin);
    if (before != by_address_.begin() && (--before)->first + before->second == begin) {
      const auto [first, size] = *before;
      erase(first, size);
      begin = first;
      room += size;
    }
    insert(begin, room);
  } catch (...) {  // no memory for the lists
    return_to_system(begin, room);
  }
}

void LargeBlocks::return_to_system(void* block, size_t room) noexcept { munmap(block, room); }

void LargeBlocks::trim() noexcept {
  for (const auto& [begin, size] : by_address_) return_to_system(begin, size);
  by_address_.clear();
  by_size_.clear();
  lowest_ = nullptr;
  free_bytes_ = 0;
}

}  // namespace saccade
