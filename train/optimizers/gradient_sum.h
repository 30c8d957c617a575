// The gradients of all ranks, added up in blocks of fixed parameters while the backward pass still makes the
// others. The blocks are where the gradients lie from the start (VarState::grad_place); what a backward
// function makes elsewhere is copied in.
#pragma once

#include <map>
#include <vector>

#include "autograd/engine.h"
#include "core/distributed/process_group.h"

namespace saccade {

class GradientSum {
 public:
  // Of these parameters, f32 and on the group's device; all ranks give the same in the same order. Blocks
  // hold about `block_bytes`, and go from the last parameter to the first, which is the order in which the
  // backward pass is done with them.
  GradientSum(ProcessGroup& group, std::vector<Var> parameters, int64_t block_bytes = int64_t{4} << 20);
  ~GradientSum();
  GradientSum& operator=(GradientSum&&) = delete;

  // backward(loss), during which the sums of blocks begin when the gradients of all their parameters are
  // final and the blocks before have begun. An undefined loss has no gradients. The last backward of a step.
  void backward_and_start(const Var& loss);
  // Until every parameter's gradient is the sum of the ranks'; one that no rank has a gradient of has none.
  // `losses` (f32, one axis, as many on every rank) become sums, too. `word` is what ranks tell each other
  // next to it: all ranks' words.
  std::vector<std::string> finish(Tensor& losses, const std::string& word);

 private:
  struct Slot {
    Var parameter;
    Tensor place;  // in its block, from `begin` on
    size_t block = 0;
    int64_t begin = 0;
  };
  struct Block {
    Tensor all;
    std::vector<size_t> slots;
    size_t missing = 0;
  };
  void fill(Block& block);
  void start_blocks(bool whole_only);

  ProcessGroup& group_;
  std::vector<Slot> slots_;
  std::map<const VarState*, size_t> slot_of_;
  std::vector<Block> blocks_;
  size_t next_ = 0;  // the first block whose sum has not begun
  Tensor losses_;
};

}  // namespace saccade
