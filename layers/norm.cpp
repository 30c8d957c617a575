#include "layers/norm.h"

namespace saccade {
namespace {

constexpr double kBatchNormEps = 1e-5;

}  // namespace

BatchNorm2d::BatchNorm2d(int64_t channels, bool frozen, bool trainable, bool counts_affine,
                         bool keeps_statistics)
    : frozen_(frozen), keeps_statistics_(keeps_statistics) {
  if (frozen && !counts_affine) {
    weight_ = buffer("weight", {channels}, 1);
    bias_ = buffer("bias", {channels}, 0);
  } else {
    weight_ = param("weight", {channels}, init::constant(1), trainable && !frozen);
    bias_ = param("bias", {channels}, init::constant(0), trainable && !frozen);
  }
  running_mean_ = buffer("running_mean", {channels}, 0);
  running_var_ = buffer("running_var", {channels}, 1);
}

bool BatchNorm2d::is_trained() const { return weight_.requires_grad() || bias_.requires_grad(); }

Var BatchNorm2d::forward(const Var& x, Activation activation) {
  if (!frozen_)
    return batch_norm(x, weight_, bias_, running_mean_.value(), running_var_.value(),
                      training() && is_trained() && !keeps_statistics_, 0.1, kBatchNormEps, activation);
  const auto [scale, shift] = affine();
  return channel_affine(x, scale, shift, activation);
}

Var BatchNorm2d::forward_add_relu(const Var& x, const Var& residual) {
  if (!frozen_) return add_relu(forward(x), residual);
  ModuleScope scope(*this);
  const auto [scale, shift] = affine();
  return affine_add_relu(x, scale, shift, residual);
}

std::pair<Var, Var> BatchNorm2d::scale_and_shift() const {
  NoGrad no_grad;
  Var scale = div(weight_, sqrt(add_scalar(running_var_, kBatchNormEps)));
  return {scale, sub(bias_, mul(running_mean_, scale))};
}

std::pair<Tensor, Tensor> BatchNorm2d::affine() {
  std::lock_guard lock(mutex_);
  decltype(Affine::made_of) now;
  for (size_t i = 0; const Var& v : {weight_, bias_, running_mean_, running_var_}) {
    const auto& storage = v.value().storage();
    now[i++] = {storage, storage->version()};
  }
  if (!affine_.scale.defined() || now != affine_.made_of) {
    auto [scale, shift] = scale_and_shift();
    affine_ = {scale.value(), shift.value(), std::move(now)};
  }
  return {affine_.scale, affine_.shift};
}

}  // namespace saccade
