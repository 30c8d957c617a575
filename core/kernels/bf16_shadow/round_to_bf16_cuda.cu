// One block of threads per chunk, 16 bytes of bf16 per thread.
#include "core/kernels/bf16_shadow/round_to_bf16.h"
#include "core/kernels/common/chunks.h"
#include "core/runtime/cuda/block.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kRoundPack = kPackWidth<bf16>, kRoundThreads = kBf16Chunk / kRoundPack;

__global__ void __launch_bounds__(kRoundThreads) round_chunks(const Bf16Chunk* chunks) {
  const Bf16Chunk chunk = chunks[blockIdx.x];
  const int64_t begin = static_cast<int64_t>(threadIdx.x) * kRoundPack;
  const auto places = reinterpret_cast<uintptr_t>(chunk.from) | reinterpret_cast<uintptr_t>(chunk.to);
  if (places % sizeof(Pack<bf16, kRoundPack>) == 0 && begin + kRoundPack <= chunk.count) {
    const Pack<float, kRoundPack> in = load_wide<kRoundPack>(chunk.from + begin);
    Pack<bf16, kRoundPack> out;
#pragma unroll
    for (int k = 0; k < kRoundPack; ++k) out.x[k] = bf16(in.x[k]);
    store_whole<kRoundPack>(chunk.to + begin, out);
    return;
  }
  const int64_t end = begin + kRoundPack < chunk.count ? begin + kRoundPack : chunk.count;
  for (int64_t k = begin; k < end; ++k) chunk.to[k] = bf16(chunk.from[k]);
}

void round_to_bf16_cuda(const Tensor& table) {
  const auto chunks = table.numel() / static_cast<int64_t>(sizeof(Bf16Chunk));
  if (chunks == 0) return;
  launch("round_chunks", &round_chunks, {chunks, kRoundThreads}, chunks_of<Bf16Chunk>(table));
}

SACCADE_REGISTER_TUNED_KERNEL(round_to_bf16, Device::kCuda, &round_to_bf16_cuda);

}  // namespace
}  // namespace saccade::kernels
