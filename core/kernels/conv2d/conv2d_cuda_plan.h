// Convolutions as cuDNN runs them: one operation graph a problem, on the first engine of cuDNN's heuristic
// whose results repeat. Nothing is timed. An engine that was found once is used for other sizes too.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/kernels/conv2d/conv2d.h"
#include "core/runtime/cuda/libraries/cudnn.h"
#include "core/runtime/lru_cache.h"
#include "core/tensor/execution.h"

namespace saccade::cuda {

// Of every pointer, in bytes.
constexpr int64_t kConvAlignment = 16;

enum class ConvPass : uint8_t { kForward, kData, kWeight };

// Everything that a plan depends on. Activations are [N, H, W, C]. Weights and their gradients are laid out
// as [O, R, S, C / groups]: the engines for activations in this order, on tensor cores above all, read
// weights in the same order, and transposing a weight is cheap next to its product.
struct ConvProblem {
  ConvPass pass;
  DType dtype;    // f32 or bf16, of all tensors
  MathMode math;  // for f32
  int64_t N, H, W, C, O, R, S, OH, OW;
  kernels::ConvParams p;
  bool bias = false, residual = false,
       relu = false;  // kForward only: y = relu(convolution + residual + bias)

  bool fuses() const { return bias || residual || relu; }

  CacheKey key() const;
  // The size for which an engine is chosen that then serves all sizes near this one: the same batch, and a
  // square of about as many pixels. Choosing by it, not by the first size that comes, makes a run that was
  // resumed choose as the whole one did.
  ConvProblem typical() const;
};

// Those of a problem; the one that the pass computes is written. The bias [O] and the residual, like y, are
// null where there are none.
struct ConvTensors {
  const void *x, *w, *y, *bias = nullptr, *residual = nullptr;
};

class ConvPlan {
 public:
  void run(const ConvTensors& tensors) const;
  int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  friend class ConvPlanner;
  explicit ConvPlan(CudnnDescriptor plan) : plan_(std::move(plan)) {}

  CudnnDescriptor plan_;
  int64_t workspace_bytes_ = 0;
};

// One of cuDNN's implementations, with its settings.
struct ConvEngine {
  int64_t index = 0;
  std::vector<std::pair<cudnnBackendKnobType_t, int64_t>> knobs;
};

struct ConvChoice {
  ConvEngine engine;
  ConvPlan plan;
};

// Makes plans for one GPU. Asking the heuristic takes milliseconds, so it is asked once for many sizes.
class ConvPlanner {
 public:
  ConvPlanner() = default;  // for our GPU
  // For one that need not be there, as cuDNN's JSON describes it: plans cannot be run.
  explicit ConvPlanner(const std::string& device);

  // No value when no engine does it: deterministically, in the wanted precision, within the workspace bound.
  std::optional<ConvPlan> make(const ConvProblem& problem);
  // The first `most` of the engines that make() chooses from, best first by the heuristic:
  // what a benchmark times.
  std::vector<ConvChoice> choices(const ConvProblem& problem, size_t most);
  // How often the heuristic was asked.
  int64_t heuristics() const { return heuristics_; }

 private:
  class Graph;
  void name_device(CudnnDescriptor& d, cudnnBackendAttributeName_t device,
                   std::optional<cudnnBackendAttributeName_t> handle = {}) const;
  template <class F>
  void each_choice(const ConvProblem& problem, const Graph& graph, F&& enough);
  std::optional<ConvChoice> choose(const ConvProblem& problem, const Graph& graph);
  std::optional<ConvPlan> plan_of(const CudnnDescriptor& configuration) const;
  std::optional<ConvPlan> plan_of(const ConvEngine& engine, const Graph& graph) const;

  std::optional<CudnnDescriptor> device_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::optional<ConvEngine>> engines_;  // by the key of the typical problem
  std::atomic<int64_t> heuristics_{0};
};

// The cached plan of the problem on our GPU.
std::shared_ptr<const std::optional<ConvPlan>> conv_plan(const ConvProblem& problem);
CacheStats conv_plans();
void set_conv_plan_capacity(size_t capacity);
constexpr size_t kConvPlanCapacity = 4096;  // a hundred padded sizes of a ResNet-50, some ten kB each

}  // namespace saccade::cuda
