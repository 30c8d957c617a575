// Sums the gradients of all ranks in blocks of fixed parameters while the backward pass still computes the
// others. The gradients lie in the blocks from the start (VarState::grad_place); those that a backward
// function makes elsewhere are copied in.
#pragma once

#include <map>
#include <vector>

#include "autograd/engine.h"
#include "core/distributed/process_group.h"

namespace saccade {

class GradientSum {
 public:
  // For these parameters, f32 and on the group's device; all ranks give the same in the same order. Blocks
  // hold about `block_bytes`, and run from the last parameter to the first, which is the order in which the
  // backward pass finishes them.
  GradientSum(ProcessGroup& group, std::vector<Var> parameters, int64_t block_bytes = int64_t{4} << 20);
  ~GradientSum();
  GradientSum& operator=(GradientSum&&) = delete;

  // Runs backward(loss); the sum of a block begins when the gradients of all its parameters are final and the
  // earlier blocks have begun. An undefined loss has no gradients. For the last backward pass of a step.
  void backward_and_start(const Var& loss);
  // Waits until every parameter's gradient is the sum over the ranks; a parameter without a gradient on any
  // rank has none. `losses` (f32, one axis, the same length on every rank) are summed too. `word` is a
  // message that goes along; returns the words of all ranks.
  std::vector<std::string> finish(Tensor& losses, const std::string& word);

 private:
  struct Slot {
    Var parameter;
    Tensor place;  // within its block, from `begin` on
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
