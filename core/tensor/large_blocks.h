// Large blocks of CPU memory. A freed one joins its free neighbours, and a new one is cut out of the smallest
// free piece that has room, so that a step that asks for many sizes holds little more than what is in use at
// its peak. Not for several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace saccade {

class LargeBlocks {
 public:
  ~LargeBlocks() { trim(); }
  // What a block of this many bytes takes.
  static size_t room_for(size_t bytes);
  // Page-aligned; null when no free piece has room.
  void* take(size_t room);
  // Asks the system for memory; false when it has less.
  bool grow(size_t room);
  void give_back(void* block, size_t room) noexcept;
  static void return_to_system(void* block, size_t room) noexcept;
  // What is free, some of it never touched.
  int64_t free_bytes() const { return free_bytes_; }
  // Returns what is free to the system.
  void trim() noexcept;

 private:
  using Piece = std::pair<size_t, char*>;
  void insert(char* begin, size_t size);
  void erase(char* begin, size_t size);

  char* lowest_ = nullptr;  // where the memory begins that came last
  std::map<char*, size_t> by_address_;
  std::set<Piece> by_size_;
  int64_t free_bytes_ = 0;
};

}  // namespace saccade
