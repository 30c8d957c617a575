// Which accesses of one block of a kernel come before those of another: the first block fences and then
// counts itself with an atomic, and the second counts itself later with the same one and then fences. Nothing
// else orders blocks on a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/cuda_emulator/memory.h"

namespace saccade::emulator {

class BlockOrder {
 public:
  void start_launch();
  void start_block(unsigned threads);
  void fence(Observer& who);
  void atomic(const void* address, const Observer& who);
  // Whether what `writer`, in another block, has done comes before what `who` does now.
  bool before(const Observer& writer, const Observer& who) const;

 private:
  // A block that has counted itself, with the fences that its threads had passed by then.
  struct Arrival {
    Observer who;
    std::vector<uint16_t> fences;
  };
  // What a thread of the running block has seen of a counter.
  struct Seen {
    const void* address;
    size_t arrivals;  // before its own
    Observer who;
  };
  bool fenced_ = false;  // in this launch; without fences nothing needs to be kept
  std::map<const void*, std::vector<Arrival>> arrivals_;
  std::vector<Seen> seen_;
  std::vector<uint16_t> fences_;  // of the running block's threads
};

BlockOrder& block_order();

}  // namespace saccade::emulator
