// The gradients' norm on the GPU: one block per chunk of a tensor, so that one launch covers all tensors.
#include "core/kernels/optimizer/optimizer.h"

#include "core/kernels/optimizer/optimizer_chunks.h"

namespace saccade::kernels {
namespace {

using namespace saccade::cuda;

constexpr int kThreads = kUpdateThreads, kNormThreads = 1024;
constexpr int64_t kChunk = 16384;  // 16 packs per thread

// The sum of the squares of each chunk: every thread sums its packs in f64, then the block in a fixed order.
__global__ void __launch_bounds__(kThreads) gradient_squares(SquareList list, double* sums) {
  SACCADE_SHARED(double, scratch, kWarp);
  const SquareItem chunk = list.cut(blockIdx.x);
  const int64_t packs = aligned(chunk.x) ? chunk.count / kFour : 0;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < packs; i += kThreads) {
    auto x = load_pack<kFour>(chunk.x + i * kFour);
    for (float v : x.x) sum += static_cast<double>(v) * static_cast<double>(v);
  }
  for (int64_t i = packs * kFour + threadIdx.x; i < chunk.count; i += kThreads)
    sum += static_cast<double>(chunk.x[i]) * static_cast<double>(chunk.x[i]);
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) sums[blockIdx.x] = chunk.guard ? 0 * sum : sum;
}

__global__ void __launch_bounds__(kNormThreads)
    gradient_root(const double* sums, int64_t count, double* norm) {
  SACCADE_SHARED(double, scratch, kWarp);
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kNormThreads) sum += sums[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *norm = sqrt(sum);
}

void gradient_norm_cuda(Tensor& norm, std::span<const Tensor> grads, std::span<const Tensor> guards) {
  int64_t n = 0;
  const std::vector<SquareItem> items = square_items(norm, grads, guards, kChunk, n);
  Tensor table = upload_chunks(items, norm.device()), sums = Tensor::empty({n}, DType::kF64, norm.device());
  const SquareList list{chunks_of<SquareItem>(table), std::ssize(items), kChunk};
  if (n > 0) launch("gradient_squares", &gradient_squares, {n, kThreads}, list, sums.data<double>());
  launch("gradient_root", &gradient_root, {1, kNormThreads}, sums.data<double>(), n, norm.data<double>());
}

SACCADE_REGISTER_TUNED_KERNEL(gradient_norm, Device::kCuda, &gradient_norm_cuda);

}  // namespace
}  // namespace saccade::kernels
