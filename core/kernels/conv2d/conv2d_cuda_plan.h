// Convolutions through cuDNN: one operation graph per problem, on the first engine of cuDNN's heuristic whose
// results are reproducible. Nothing is timed. An engine that was found once is used for other sizes too.
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

// The alignment of every pointer, in bytes.
constexpr int64_t kConvAlignment = 16;

enum class ConvPass : uint8_t { kForward, kData, kWeight };

// Everything on which a plan depends. Activations are [N, H, W, C]. Weights and their gradients are laid out
// as [O, R, S, C / groups]: the engines for activations in this order, especially on tensor cores, read
// weights in the same order, and transposing a weight is cheap compared with its product.
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
  // The size for which an engine is chosen that is then used for all similar sizes: the same batch, and a
  // square of about as many pixels. It does not depend on which size comes first, so a resumed run makes the
  // same choices as an uninterrupted one.
  ConvProblem typical() const;
};

// The tensors of a problem; the pass writes the one that it computes. The bias [O] and the residual, like y,
// are null if there are none.
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

// Makes plans for one GPU. A query of the heuristic takes milliseconds, so its answer is used for many sizes.
class ConvPlanner {
 public:
  ConvPlanner() = default;  // for our GPU
  // For a GPU that need not be present, described by cuDNN's JSON: plans cannot be run.
  explicit ConvPlanner(const std::string& device);

  // No value if no engine does it deterministically, in the given precision and within the workspace limit.
  std::optional<ConvPlan> make(const ConvProblem& problem);
  // Returns the first `most` of the engines from which make() chooses, best first by the heuristic, for
  // benchmarks to time.
  std::vector<ConvChoice> choices(const ConvProblem& problem, size_t most);
  // The number of queries of the heuristic.
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

// Returns the cached plan of the problem on our GPU.
std::shared_ptr<const std::optional<ConvPlan>> conv_plan(const ConvProblem& problem);
CacheStats conv_plans();
void set_conv_plan_capacity(size_t capacity);
constexpr size_t kConvPlanCapacity = 4096;  // a hundred padded sizes of a ResNet-50, some ten kB each

}  // namespace saccade::cuda
