// Large blocks of CPU memory. A freed block joins its free neighbours, and a new one is cut out of the
// smallest free piece that is large enough, so that a step that asks for many sizes holds little more than it
// uses at its peak. Not thread-safe.
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
  // Returns the memory that a block of this many bytes takes.
  static size_t room_for(size_t bytes);
  // Returns a page-aligned block, or null if no free piece is large enough.
  void* take(size_t room);
  // Asks the system for memory. Returns false if the system has less.
  bool grow(size_t room);
  void give_back(void* block, size_t room) noexcept;
  static void return_to_system(void* block, size_t room) noexcept;
  // The number of free bytes, some of which may never have been touched.
  int64_t free_bytes() const { return free_bytes_; }
  // Returns all free memory to the system.
  void trim() noexcept;

 private:
  using Piece = std::pair<size_t, char*>;
  void insert(char* begin, size_t size);
  void erase(char* begin, size_t size);

  char* lowest_ = nullptr;  // start of the most recently added memory
  std::map<char*, size_t> by_address_;
  std::set<Piece> by_size_;
  int64_t free_bytes_ = 0;
};

}  // namespace saccade
