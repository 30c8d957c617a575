// Convolutions as cuDNN runs them: one operation graph a problem, on the first engine of cuDNN's heuristic
// whose results repeat. Nothing is timed.
#pragma once

#include <optional>

#include "core/kernels/conv2d/conv2d.h"
#include "core/runtime/cuda/cudnn.h"
#include "core/runtime/lru_cache.h"
#include "core/tensor/execution.h"

namespace saccade::cuda {

// Of every pointer, in bytes.
constexpr int64_t kConvAlignment = 16;

enum class ConvPass : uint8_t { kForward, kData, kWeight };

// Everything that a plan depends on. Activations are [N, H, W, C]. Weights and their gradients are laid out as
// [O, R, S, C / groups]: the engines for activations in this order, on tensor cores above all, read weights
// in the same order, and transposing a weight is cheap next to its product.
struct ConvProblem {
  ConvPass pass;
  DType dtype;    // f32 or bf16, of all tensors but the bias, which is f32
  MathMode math;  // for f32
  int64_t N, H, W, C, O, R, S, OH, OW;
  kernels::ConvParams p;
  bool bias = false, relu = false;  // kForward only

  CacheKey key() const;
};

class ConvPlan {
 public:
  // No value when no engine does it: deterministically, in the wanted precision, within the workspace bound.
  static std::optional<ConvPlan> make(const ConvProblem& problem);

  // Tensors of the problem; the one that the pass computes is written.
  void run(const void* x, const void* w, const void* y, const void* bias) const;
  int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  explicit ConvPlan(CudnnDescriptor plan) : plan_(std::move(plan)) {}

  CudnnDescriptor plan_;
  int64_t workspace_bytes_ = 0;
};

// The cached plan of the problem.
std::shared_ptr<const std::optional<ConvPlan>> conv_plan(const ConvProblem& problem);
CacheStats conv_plans();
void set_conv_plan_capacity(size_t capacity);

}  // namespace saccade::cuda
