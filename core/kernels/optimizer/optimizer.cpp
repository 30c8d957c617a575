// The gradients' norm.
#include "core/kernels/optimizer/optimizer.h"

#include "core/kernels/optimizer/optimizer_chunks.h"

namespace saccade::kernels {
namespace {

// Tensors are cut into chunks of this many elements; one functor index updates one chunk.
constexpr int64_t kChunk = 8192;

struct SumSquares {
  const SquareChunk* chunks;
  double* sums;
  SACCADE_HD void operator()(int64_t i) const {
    const float* x = chunks[i].x;
    int64_t n = chunks[i].count, j = 0;
    // Eight running sums, so that the compiler can use vectors; their order is fixed.
    double lanes[8] = {};
    for (; j + 8 <= n; j += 8)
      for (int k = 0; k < 8; ++k) lanes[k] += static_cast<double>(x[j + k]) * static_cast<double>(x[j + k]);
    for (int k = 0; j < n; ++j, ++k) lanes[k] += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    double sum =
        ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    sums[i] = chunks[i].guard ? 0 * sum : sum;
  }
};

struct RootOfSum {
  const double* sums;
  int64_t count;
  double* norm;
  SACCADE_HD void operator()(int64_t) const {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += sums[i];
    *norm = sqrt(total);
  }
};

void gradient_norm_generic(Tensor& norm, std::span<const Tensor> grads, std::span<const Tensor> guards) {
  std::vector<SquareChunk> chunks = square_chunks(norm, grads, guards, kChunk);
  auto n = static_cast<int64_t>(chunks.size());
  Tensor table = upload_chunks(chunks, norm.device()), sums = Tensor::empty({n}, DType::kF64, norm.device());
  for_each(n, SumSquares{chunks_of<SquareChunk>(table), sums.data<double>()}, kChunk);
  for_each(1, RootOfSum{sums.data<double>(), n, norm.data<double>()}, n);
}

SACCADE_REGISTER_KERNEL(gradient_norm, &gradient_norm_generic);

}  // namespace
}  // namespace saccade::kernels
