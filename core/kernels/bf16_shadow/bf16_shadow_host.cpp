#include "core/kernels/bf16_shadow/bf16_shadow.h"

#include <algorithm>
#include <mutex>

#include "core/kernels/bf16_shadow/round_to_bf16.h"
#include "core/kernels/common/chunks.h"
#include "core/tensor/execution.h"
#include "core/tensor/prepared.h"

namespace saccade {
namespace {

struct Shadows {
  std::mutex mutex;
  std::vector<std::weak_ptr<Storage>> storages;
  std::vector<kernels::Bf16Chunk> chunks;  // the chunks in the table
  Tensor table;
};

// Never destroyed, like the GPU's allocator.
Shadows& shadows() {
  static auto* shadows = new Shadows;
  return *shadows;
}

// Makes all shadows that are missing or older than their parameters.
void refresh(Shadows& all) {
  std::vector<kernels::Bf16Chunk> chunks;
  std::erase_if(all.storages, [](const auto& s) { return s.expired(); });
  for (const auto& weak : all.storages) {
    std::shared_ptr<Storage> s = weak.lock();
    Bf16Shadow& shadow = *s->bf16_shadow;
    if (shadow.storage && shadow.version == s->version()) continue;
    auto count = static_cast<int64_t>(s->bytes() / sizeof(float));
    MemoryUseScope use(MemoryUse::kParameters);
    if (!shadow.storage) shadow.storage = std::make_shared<Storage>(s->bytes() / 2, s->device());
    shadow.storage->bump_version();
    shadow.version = s->version();
    auto* from = static_cast<const float*>(s->data());
    auto* to = static_cast<bf16*>(shadow.storage->data());
    kernels::for_chunks(count, kernels::kBf16Chunk, [&](int64_t begin, int64_t length) {
      chunks.push_back({from + begin, to + begin, length});
    });
  }
  if (chunks.empty()) return;
  auto same = [](const kernels::Bf16Chunk& a, const kernels::Bf16Chunk& b) {
    return a.from == b.from && a.to == b.to && a.count == b.count;
  };
  // Every step of a training changes the same parameters, so their table is made only once.
  if (!std::equal(chunks.begin(), chunks.end(), all.chunks.begin(), all.chunks.end(), same)) {
    all.table = kernels::upload_chunks(chunks, Device::kCuda);
    all.chunks = std::move(chunks);
  }
  kernels::round_to_bf16(all.table);
}

}  // namespace

void keep_bf16_shadow(const Tensor& t) {
  if (t.device() != Device::kCuda || t.dtype() != DType::kF32 || t.storage()->bf16_shadow) return;
  std::lock_guard lock(shadows().mutex);
  t.storage()->bf16_shadow = std::make_unique<Bf16Shadow>();
  shadows().storages.push_back(t.storage());
}

Tensor in_bf16(const Tensor& t) {
  if (t.dtype() != DType::kF32 || !t.storage()->bf16_shadow) return t.to(DType::kBF16);
  std::lock_guard lock(shadows().mutex);
  const Bf16Shadow& shadow = *t.storage()->bf16_shadow;
  if (!shadow.storage || shadow.version != t.storage()->version()) refresh(shadows());
  Tensor rounded = t.view_of(shadow.storage, DType::kBF16);
  keeps_forms(t) ? keep_forms(rounded) : drop_forms(rounded);
  return rounded;
}

}  // namespace saccade
