#include "core/kernels/bf16_shadow/round_to_bf16.h"

#include "core/kernels/common/chunks.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kPart = 8;  // elements per call: 32 bytes in, 16 out

struct RoundPart {
  const Bf16Chunk* chunks;
  SACCADE_HD void operator()(int64_t i) const {
    const Bf16Chunk chunk = chunks[i / (kBf16Chunk / kPart)];
    int64_t begin = i % (kBf16Chunk / kPart) * kPart;
    int64_t end = begin + kPart < chunk.count ? begin + kPart : chunk.count;
    for (int64_t k = begin; k < end; ++k) chunk.to[k] = bf16(chunk.from[k]);
  }
};

void round_to_bf16_generic(const Tensor& table) {
  auto chunks = table.numel() / static_cast<int64_t>(sizeof(Bf16Chunk));
  for_each(chunks * (kBf16Chunk / kPart), RoundPart{chunks_of<Bf16Chunk>(table)}, kPart);
}

SACCADE_REGISTER_KERNEL(round_to_bf16, &round_to_bf16_generic);

}  // namespace
}  // namespace saccade::kernels
