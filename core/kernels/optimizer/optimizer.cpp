// The gradients' norm.
#include "core/kernels/optimizer/optimizer.h"

#include "core/kernels/optimizer/optimizer_chunks.h"

namespace saccade::kernels {
namespace {

// Tensors are split into chunks of this many elements; one functor index processes one chunk.
constexpr int64_t kChunk = 8192;

struct SumSquares {
  SquareList list;
  double* sums;
  SACCADE_HD void operator()(int64_t i) const {
    const SquareItem part = list.cut(i);
    const float* x = part.x;
    int64_t n = part.count, j = 0;
    // Eight running sums, so that the compiler can vectorise; their order is fixed.
    double lanes[8] = {};
    for (; j + 8 <= n; j += 8)
      for (int k = 0; k < 8; ++k) lanes[k] += static_cast<double>(x[j + k]) * static_cast<double>(x[j + k]);
    for (int k = 0; j < n; ++j, ++k) lanes[k] += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    double sum =
        ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    sums[i] = part.guard ? 0 * sum : sum;
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
  int64_t n = 0;
  const std::vector<SquareItem> items = square_items(norm, grads, guards, kChunk, n);
  Tensor table = upload_chunks(items, norm.device()), sums = Tensor::empty({n}, DType::kF64, norm.device());
  const SquareList list{chunks_of<SquareItem>(table), std::ssize(items), kChunk};
  for_each(n, SumSquares{list, sums.data<double>()}, kChunk);
  for_each(1, RootOfSum{sums.data<double>(), n, norm.data<double>()}, n);
}

SACCADE_REGISTER_KERNEL(gradient_norm, &gradient_norm_generic);

}  // namespace
}  // namespace saccade::kernels
