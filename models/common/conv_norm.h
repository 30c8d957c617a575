// A convolution without bias, a batch norm and an activation as one block. Its parts are named `conv` and
// `norm`, or as the model family names them.
#pragma once

#include <functional>
#include <mutex>
#include <span>

#include "layers/conv2d.h"
#include "layers/norm.h"

namespace saccade {

// Weight and bias of the single convolution that replaces a convolution and its norm.
struct FoldedConv {
  Var weight;  // [O, C, R, S]
  Var bias;    // [O]
};

// Keeps a folded convolution until one of the tensors that it was made from changes.
class FoldedConvCache {
 public:
  // In the compute dtype and the memory layout of the device's kernels. Without history: for evaluation.
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
  int64_t groups = 1;            // equals `in` for a depthwise convolution
  bool padded = true;            // padded by kernel / 2
  bool counts_affine = true;     // of a frozen norm, see BatchNorm2d
  const char* norm_name = "norm";
};

class ConvNorm : public Module {
 public:
  ConvNorm(int64_t in, int64_t out, const ConvNormOptions& options = {});
  // [N, H, W, C] -> [N, ceil(H / stride), ceil(W / stride), O] if padded. Without gradients and with a frozen
  // norm, the norm is folded into the convolution, which only changes the rounding.
  Var forward(const Var& x);
  // Returns relu(forward(x) + residual()), the end of a residual block, for a block without activation.
  Var forward_add_relu(const Var& x, const std::function<Var()>& residual);
  FoldedConv folded() const;
  // The tensors that folded() depends on.
  std::vector<Var> sources() const;
  const Conv2dOptions& options() const { return conv_->options(); }

 private:
  ConvNormOptions options_;
  Child<Conv2d> conv_;
  Child<BatchNorm2d> norm_;
  FoldedConvCache cache_;
};

// Returns whether blocks of several convolutions, or with a norm, run folded: in evaluation,
// if no gradients are recorded.
bool runs_folded(const Module& module);
// Applies the convolution and its norm, for modules whose names differ from a ConvNorm's;
// this is one convolution if `owner` runs folded.
Var conv_then_norm(const Module& owner, const Conv2d& conv, BatchNorm2d& norm, FoldedConvCache& cache,
                   const Var& x, Activation activation = Activation::kNone);
// Returns relu(norm + residual()), the end of a residual block. residual() is called once.
Var conv_norm_add_relu(const Module& owner, const Conv2d& conv, BatchNorm2d& norm, FoldedConvCache& cache,
                       const Var& x, const std::function<Var()>& residual);

}  // namespace saccade
