// Normalisation layers, with PyTorch's names and defaults.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "autograd/ops.h"
#include "layers/module.h"

namespace saccade {

// Over all axes of [N, ..., C] but the last. Its tensors are weight, bias, running_mean and running_var;
// PyTorch's num_batches_tracked is not kept. In training the statistics follow the batches as long as weight
// or bias is trained.
class BatchNorm2d : public Module {
 public:
  // frozen: all four tensors are constants. They are buffers, as in DETR's backbones, or, with counts_affine,
  // weight and bias are untrained parameters, since RT-DETR counts them as parameters. keeps_statistics: the
  // statistics are constants, while weight and bias are trained as usual.
  BatchNorm2d(int64_t channels, bool frozen, bool trainable = true, bool counts_affine = false,
              bool keeps_statistics = false);
  Var forward(const Var& x, Activation activation = Activation::kNone);
  // relu(norm(x) + residual)
  Var forward_add_relu(const Var& x, const Var& residual);
  std::string type_name() const override { return frozen_ ? "FrozenBatchNorm2d" : "BatchNorm2d"; }
  // The scale and shift of x * scale + shift that equals the norm with the running statistics; no history.
  std::pair<Var, Var> scale_and_shift() const;
  std::vector<Var> tensors() const { return {weight_, bias_, running_mean_, running_var_}; }

 private:
  // If the backbone or a group of the optimizer freezes the parameters, the statistics are frozen too.
  bool is_trained() const;

  // scale_and_shift() of frozen tensors, kept until one of the four changes.
  struct Affine {
    Tensor scale, shift;
    std::array<std::pair<std::shared_ptr<Storage>, uint32_t>, 4> made_of;  // with its version
  };
  // Returns copies of the handles, since threads share a frozen model.
  std::pair<Tensor, Tensor> affine();

  bool frozen_, keeps_statistics_;
  Var weight_, bias_, running_mean_, running_var_;
  std::mutex mutex_;  // guards affine_
  Affine affine_;
};

class GroupNorm : public Module {
 public:
  GroupNorm(int64_t groups, int64_t channels) : groups_(groups) {
    if (channels % groups != 0)
      fail_input("group norm: {} channels do not split into {} groups", channels, groups);
    weight_ = param("weight", {channels}, init::constant(1));
    bias_ = param("bias", {channels}, init::constant(0));
  }
  Var forward(const Var& x) const { return group_norm(x, weight_, bias_, groups_); }

 private:
  int64_t groups_;
  Var weight_, bias_;
};

class LayerNorm : public Module {
 public:
  explicit LayerNorm(int64_t channels, double eps = 1e-5) : eps_(eps) {
    weight_ = param("weight", {channels}, init::constant(1));
    bias_ = param("bias", {channels}, init::constant(0));
  }
  Var forward(const Var& x) const { return layer_norm(x, weight_, bias_, eps_); }
  // Of residual + dropout(x, p) if the layer is training, or else of residual + x.
  Var forward(const Var& x, const Var& residual, double p) const {
    return dropout_norm(x, p, training(), residual, weight_, bias_, eps_);
  }

 private:
  double eps_;
  Var weight_, bias_;
};

}  // namespace saccade
