#include "models/common/conv_norm.h"

#include "core/kernels/bf16_shadow/bf16_shadow.h"
#include "core/kernels/conv2d/conv2d.h"
#include "core/tensor/prepared.h"

namespace saccade {

FoldedConv FoldedConvCache::get(std::span<const Var> sources, const std::function<FoldedConv()>& fold) {
  std::lock_guard lock(mutex_);
  std::vector<Source> now;
  for (const Var& v : sources) now.push_back({v.value().storage(), v.value().storage()->version()});
  const DType compute = execution().compute;
  if (folded_.weight.defined() && now == sources_ && compute == compute_) return folded_;
  NoGrad no_grad;
  folded_ = fold();
  Tensor weight = folded_.weight.value();
  if (weight.dtype() == DType::kF32) weight = weight.to(compute);
  folded_.weight = Var(kernels::conv_weight_in_order(weight));
  keep_bf16_shadow(folded_.bias.value());
  keep_forms(folded_.weight.value());
  sources_ = std::move(now);
  compute_ = compute;
  return folded_;
}

void FoldedConvCache::clear() {
  std::lock_guard lock(mutex_);
  sources_.clear();
  folded_ = {};
}

namespace {

FoldedConv fold(const Conv2d& conv, const BatchNorm2d& norm) {
  auto [scale, shift] = norm.scale_and_shift();
  const Var& weight = conv.weight();
  return {mul(weight, reshape(scale, {weight.dim(0), 1, 1, 1})), shift};
}

std::vector<Var> sources_of(const Conv2d& conv, const BatchNorm2d& norm) {
  std::vector<Var> all = norm.tensors();
  all.push_back(conv.weight());
  return all;
}

}  // namespace

bool runs_folded(const Module& module) { return !module.training() && !execution().grad_enabled; }

ConvNorm::ConvNorm(int64_t in, int64_t out, const ConvNormOptions& o) : options_(o) {
  conv_ = make_child<Conv2d>(
      "conv", in, out, o.kernel,
      Conv2dOptions{.stride = o.stride, .padding = o.padded ? o.kernel / 2 : 0, .groups = o.groups},
      Conv2dInit{.bias = false, .weight = o.weight_init}, o.trainable);
  norm_ = make_child<BatchNorm2d>(o.norm_name, out, o.frozen_norm, o.trainable, o.counts_affine);
}

Var ConvNorm::forward(const Var& x) {
  const bool fold = runs_folded(*this);
  if (!fold) cache_.clear();
  if (!fold && !options_.frozen_norm) return norm_(conv_(x), options_.activation);
  const FoldedConv both = fold ? cache_.get(sources(), [&] { return folded(); }) : folded();
  return conv2d(x, both.weight, both.bias, conv_->options(), options_.activation);
}

Var ConvNorm::forward_add_relu(const Var& x, const std::function<Var()>& residual) {
  if (!runs_folded(*this)) {
    const Var y = forward(x);
    return add_relu(y, residual());
  }
  ModuleScope scope(*this);
  const FoldedConv both = cache_.get(sources(), [&] { return folded(); });
  return conv2d_add_relu(x, both.weight, both.bias, residual(), conv_->options());
}

FoldedConv ConvNorm::folded() const { return fold(*conv_, *norm_); }
std::vector<Var> ConvNorm::sources() const { return sources_of(*conv_, *norm_); }

Var conv_then_norm(const Module& owner, const Conv2d& conv, BatchNorm2d& norm, FoldedConvCache& cache,
                   const Var& x, Activation activation) {
  if (!runs_folded(owner)) {
    cache.clear();
    return call(norm, call(conv, x), activation);
  }
  const FoldedConv both = cache.get(sources_of(conv, norm), [&] { return fold(conv, norm); });
  return conv2d(x, both.weight, both.bias, conv.options(), activation);
}

Var conv_norm_add_relu(const Module& owner, const Conv2d& conv, BatchNorm2d& norm, FoldedConvCache& cache,
                       const Var& x, const std::function<Var()>& residual) {
  if (runs_folded(owner)) {
    const FoldedConv both = cache.get(sources_of(conv, norm), [&] { return fold(conv, norm); });
    return conv2d_add_relu(x, both.weight, both.bias, residual(), conv.options());
  }
  cache.clear();
  const Var y = call(conv, x);
  return norm.forward_add_relu(y, residual());
}

}  // namespace saccade
