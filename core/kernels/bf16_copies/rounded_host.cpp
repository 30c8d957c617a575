#include "core/kernels/bf16_copies/rounded.h"

#include <algorithm>
#include <mutex>

#include "core/kernels/bf16_copies/round_pieces.h"
#include "core/kernels/common/pieces.h"
#include "core/tensor/memory_use.h"

namespace saccade {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<Storage>> storages;
  std::vector<kernels::RoundPiece> pieces;  // those of the table
  Tensor table;
};

// Never destroyed, as the allocator of the GPU.
Registry& registry() {
  static auto* registry = new Registry;
  return *registry;
}

// Makes all copies that are missing or older than their original.
void refresh(Registry& r) {
  std::vector<kernels::RoundPiece> pieces;
  std::erase_if(r.storages, [](const auto& s) { return s.expired(); });
  for (const auto& weak : r.storages) {
    std::shared_ptr<Storage> s = weak.lock();
    RoundedCopy& copy = *s->rounded;
    if (copy.storage && copy.version == s->version()) continue;
    auto count = static_cast<int64_t>(s->bytes() / sizeof(float));
    MemoryUseScope use(MemoryUse::kParameters);
    if (!copy.storage) copy.storage = std::make_shared<Storage>(s->bytes() / 2, s->device());
    copy.storage->bump_version();
    copy.version = s->version();
    auto* from = static_cast<const float*>(s->data());
    auto* to = static_cast<bf16*>(copy.storage->data());
    kernels::cut(count, kernels::kRoundPiece, [&](int64_t begin, int64_t length) {
      pieces.push_back({from + begin, to + begin, length});
    });
  }
  if (pieces.empty()) return;
  auto same = [](const kernels::RoundPiece& a, const kernels::RoundPiece& b) {
    return a.from == b.from && a.to == b.to && a.count == b.count;
  };
  // The same parameters change in every step of a training: their table is made once.
  if (!std::equal(pieces.begin(), pieces.end(), r.pieces.begin(), r.pieces.end(), same)) {
    r.table = kernels::upload_pieces(pieces, Device::kCuda);
    r.pieces = std::move(pieces);
  }
  kernels::round_pieces(r.table);
}

}  // namespace

void keep_rounded(const Tensor& t) {
  if (t.device() != Device::kCuda || t.dtype() != DType::kF32 || t.storage()->rounded) return;
  std::lock_guard lock(registry().mutex);
  t.storage()->rounded = std::make_unique<RoundedCopy>();
  registry().storages.push_back(t.storage());
}

Tensor rounded(const Tensor& t) {
  if (t.dtype() != DType::kF32 || !t.storage()->rounded) return t.to(DType::kBF16);
  std::lock_guard lock(registry().mutex);
  const RoundedCopy& copy = *t.storage()->rounded;
  if (!copy.storage || copy.version != t.storage()->version()) refresh(registry());
  return t.view_of(copy.storage, DType::kBF16);
}

}  // namespace saccade
