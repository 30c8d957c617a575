// Copies up to kMaxParts tensors per launch, whose addresses are its arguments: a block of threads copies a
// chunk of one tensor.
#include "core/kernels/copy/copy.h"

#include <algorithm>

#include "core/runtime/cuda/block.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kPartThreads = 256, kPartPack = 4, kPacksAThread = 4;
constexpr int64_t kPartChunk = kPartThreads * kPartPack * kPacksAThread;
constexpr size_t kMaxParts = 96;

struct Parts {
  const float* x[kMaxParts];
  float* y[kMaxParts];
  int64_t count[kMaxParts];
  uint32_t first[kMaxParts];  // the index of its first chunk
  uint32_t parts;
};

template <int kPack>
__global__ void __launch_bounds__(kPartThreads) copy_chunks(Parts all) {
  uint32_t low = 0, high = all.parts - 1;
  while (low < high) {  // the last part that begins at or before this chunk
    const uint32_t middle = (low + high + 1) / 2;
    if (all.first[middle] <= blockIdx.x)
      low = middle;
    else
      high = middle - 1;
  }
  const int64_t begin = int64_t{blockIdx.x - all.first[low]} * kPartChunk;
  const int64_t rest = all.count[low] - begin, count = rest < kPartChunk ? rest : kPartChunk;
  const float* x = all.x[low] + begin;
  float* y = all.y[low] + begin;
#pragma unroll 4
  for (int64_t i = static_cast<int64_t>(threadIdx.x) * kPack; i < count; i += kPartThreads * kPack) {
    if (i + kPack <= count) {
      store_pack<kPack>(y + i, load_pack<kPack>(x + i));
    } else {
      for (int64_t k = i; k < count; ++k) y[k] = x[k];
    }
  }
}

void copy_parts_cuda(Tensor& block, std::span<const Tensor> xs, std::span<const int64_t> begins) {
  for (size_t at = 0; at < xs.size(); at += kMaxParts) {
    Parts all{};
    int64_t chunks = 0;
    bool packs = true;
    for (size_t i = at; i < std::min(at + kMaxParts, xs.size()); ++i) {
      if (xs[i].numel() == 0) continue;
      all.x[all.parts] = xs[i].data<float>();
      all.y[all.parts] = block.data<float>() + begins[i];
      all.count[all.parts] = xs[i].numel();
      all.first[all.parts] = static_cast<uint32_t>(chunks);
      packs = packs && packs_fit<kPartPack>(all.x[all.parts], 0) && packs_fit<kPartPack>(all.y[all.parts], 0);
      chunks += ceil_div(xs[i].numel(), kPartChunk);
      ++all.parts;
    }
    if (all.parts == 0) continue;
    launch("copy_chunks", packs ? &copy_chunks<kPartPack> : &copy_chunks<1>, {chunks, kPartThreads}, all);
  }
}

bool are_copied_as_they_are(const Tensor& block, const std::span<const Tensor>& xs,
                            const std::span<const int64_t>&) {
  return block.dtype() == DType::kF32 && block.is_contiguous() && block.bytes() <= INT32_MAX &&
         std::ranges::all_of(xs,
                             [](const Tensor& x) { return x.dtype() == DType::kF32 && x.is_contiguous(); });
}

SACCADE_REGISTER_TUNED_KERNEL(copy_parts, Device::kCuda, &copy_parts_cuda, &are_copied_as_they_are);

}  // namespace
}  // namespace saccade::kernels
