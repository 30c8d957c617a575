// A convolution without bias, batch norm and an activation as one block: `conv` and `norm`,
// or what the family calls it.
#pragma once

#include <functional>
#include <mutex>
#include <span>

#include "layers/conv2d.h"
#include "layers/norm.h"

namespace saccade {

// Weight and bias of the one convolution that a convolution and its norm come to.
struct FoldedConv {
  Var weight;  // [O, C, R, S]
  Var bias;    // [O]
};

// What was made of tensors, until one of them changes.
class FoldedConvCache {
 public:
  // In the compute dtype, and in the order that the device's kernels read. No history: for evaluation.
  FoldedConv get(std::span<const Var> sources, const std::function<FoldedConv()>& fold);
  void clear();

 private:
  struct Source {
    std::shared_ptr<Storage> storage;
    uint32_t version = 0;
    bool operator==(const Source&) const = default;
  };
  std::mutex mutex_;
  std::vector<Source> sources_;
  DType compute_ = DType::kF32;
  FoldedConv folded_;
};

struct ConvNormOptions {
  int64_t kernel = 1, stride = 1;
  Activation activation = Activation::kNone;
  bool frozen_norm = false;
  bool trainable = true;
  Initializer weight_init = {};  // empty: PyTorch's default
  int64_t groups = 1;            // == in for a depthwise one
  bool padded = true;            // by kernel / 2
  bool counts_affine = true;     // of a frozen norm, see BatchNorm2d
  const char* norm_name = "norm";
};

class ConvNorm : public Module {
 public:
  ConvNorm(int64_t in, int64_t out, const ConvNormOptions& options = {});
  // [N, H, W, C] -> [N, ceil(H / stride), ceil(W / stride), O] where it is padded. Without gradients and with
  // a frozen norm the norm is folded into the convolution, which changes the rounding only.
  Var forward(const Var& x);
  // relu(forward(x) + residual()), of one without an activation: the end of a residual block.
  Var forward_add_relu(const Var& x, const std::function<Var()>& residual);
  FoldedConv folded() const;
  // What folded() depends on.
  std::vector<Var> sources() const;

 private:
  ConvNormOptions options_;
  Child<Conv2d> conv_;
  Child<BatchNorm2d> norm_;
  FoldedConvCache cache_;
};

// Do blocks of several convolutions, or with a norm, run folded? In evaluation,
// where no gradients are recorded.
bool runs_folded(const Module& module);
// The norm of the convolution of x, of modules under other names than a ConvNorm's:
// one convolution where `owner` runs folded.
Var conv_then_norm(const Module& owner, const Conv2d& conv, BatchNorm2d& norm, FoldedConvCache& cache,
                   const Var& x, Activation activation = Activation::kNone);
// relu(norm + residual()): the end of a residual block. residual() is called once.
Var conv_norm_add_relu(const Module& owner, const Conv2d& conv, BatchNorm2d& norm, FoldedConvCache& cache,
                       const Var& x, const std::function<Var()>& residual);

}  // namespace saccade
