// The per-thread state on which work depends besides its inputs; ops, kernels and allocators read it.
#pragma once

#include <array>
#include <cstdint>

#include "core/tensor/dtype.h"

namespace saccade {

class OpObserver;  // autograd/scope.h

// The precision of f32 products.
enum class MathMode : uint8_t {
  kExact,  // f32 products with the errors of plain sums
  // A GPU's tensor cores round the factors to 10 bits of mantissa; the CPU's convolutions use Winograd's
  // F(4x4, 3x3).
  kTf32,
};

// The purpose of an allocation, so that the message for a full GPU can say what its memory holds.
enum class MemoryUse : uint8_t { kParameters, kOptimizer, kForward, kBackward, kOther };
inline constexpr std::array kMemoryUses{"parameters", "optimizer", "forward pass", "backward pass", "other"};

struct ExecutionState {
  // Whether ops are recorded for backward().
  bool grad_enabled = true;
  // The dtype to which ops cast their inputs marked Cast::kCompute (autograd/function.h): f32 or bf16.
  DType compute = DType::kF32;
  MathMode math = MathMode::kExact;
  // Whether every run must give the same bits. If false, float atomics are allowed where they are faster.
  bool deterministic = true;
  // Whether modules are built as a sketch: with names and shapes, but without memory for parameters and
  // buffers.
  bool sketch = false;
  // For tests: every kernel uses its generic implementation.
  bool generic_kernels = false;
  // The purpose of new tensors.
  MemoryUse memory_use = MemoryUse::kOther;
  // Philox key of dropout and drop path, and the number of random ops run so far under it.
  uint64_t rng_key = 0;
  uint64_t rng_calls = 0;
  // If several processes share a batch: the index of this process's first image among those of all
  // processes, and the number of its own images (0 if one process has them all). With these, random ops draw
  // for each image what they would draw in one process.
  int64_t sample_first = 0, samples = 0;
  OpObserver* observer = nullptr;
  // Identifies the innermost running module (layers/module.h); null outside of any module.
  const void* module = nullptr;
};

namespace detail {
inline thread_local ExecutionState execution_state;
}
// Returns the state of this thread.
inline ExecutionState& execution() { return detail::execution_state; }

// Saves the whole state and restores it at the end of the block, so that the block may change execution()
// freely. Programs (the trainer, the evaluator, tests) open it, layers never do.
class ExecutionScope {
 public:
  ExecutionScope() : saved_(execution()) {}
  ~ExecutionScope() { execution() = saved_; }
  ExecutionScope& operator=(ExecutionScope&&) = delete;

 private:
  ExecutionState saved_;
};

// Sets memory_use, and nothing else, until the end of the block.
class MemoryUseScope {
 public:
  explicit MemoryUseScope(MemoryUse use) : before_(execution().memory_use) { execution().memory_use = use; }
  ~MemoryUseScope() { execution().memory_use = before_; }
  MemoryUseScope& operator=(MemoryUseScope&&) = delete;

 private:
  MemoryUse before_;
};

}  // namespace saccade
