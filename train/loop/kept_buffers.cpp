#include "train/loop/kept_buffers.h"

#include "core/tensor/execution.h"
#include "train/optimizers/flat.h"

namespace saccade {

KeptBuffers::KeptBuffers(const Module& model) {
  for (const NamedTensor& t : model.named_tensors())
    if (t.is_buffer) buffers_.push_back({.var = t.var});
}

void KeptBuffers::keep() {
  const MemoryUseScope use(MemoryUse::kOptimizer);
  bool is_gathered = true;
  for (Buffer& b : buffers_) {
    const Tensor& value = b.var.value();
    const Storage* storage = value.storage().get();
    if (b.changes) {
      is_gathered = is_gathered && storage == all_.storage().get();
      continue;
    }
    if (b.kept.defined() && storage == b.storage && value.storage()->version() == b.version) continue;
    if (b.kept.defined() && value.dtype() == DType::kF32) {
      b.changes = true;
      b.kept = {};
      is_gathered = false;
      continue;
    }
    b.kept = value.clone();
    b.storage = storage;
    b.version = value.storage()->version();
  }
  if (!is_gathered) gather();
  if (all_.defined()) kept_all_.copy_from(all_);
}

void KeptBuffers::gather() {
  std::vector<Shape> shapes;
  for (const Buffer& b : buffers_)
    if (b.changes) shapes.push_back(b.var.shape());
  const std::vector<Tensor> places = flat_zeros(shapes, buffers_[0].var.device());
  auto place = places.begin();
  for (Buffer& b : buffers_) {
    if (!b.changes) continue;
    Tensor value = *place++;
    value.copy_from(b.var.value());
    b.var.value() = value;
  }
  // The whole block.
  const auto& storage = places.front().storage();
  all_ =
      Tensor::empty({static_cast<int64_t>(storage->bytes() / sizeof(float))}).view_of(storage, DType::kF32);
  kept_all_ = all_.empty_like();
}

void KeptBuffers::restore() {
  if (all_.defined()) all_.copy_from(kept_all_);
  for (Buffer& b : buffers_) {
    Tensor& value = b.var.value();
    if (b.changes || !b.kept.defined() || value.storage()->version() == b.version) continue;
    value.copy_from(b.kept);
    b.version = value.storage()->version();
  }
}

}  // namespace saccade
