// The optimizer on the GPU: one block a piece of a tensor, so that one launch covers all tensors. The pieces
// (a few thousand of 56 bytes for a whole detector) are uploaded at each step; every number of the tensors is
// read and written once, 16 bytes a thread and access.
#include "core/kernels/optimizer/optimizer.h"

#include "core/kernels/optimizer/update.h"
#include "core/runtime/cuda/block.h"

namespace saccade::kernels {
namespace {

using namespace saccade::cuda;

constexpr int kThreads = 256, kNormThreads = 1024;
constexpr int64_t kPiece = 16384;  // 16 packs a thread
constexpr int kFour = kPackWidth<float>;

template <class... P>
__device__ __forceinline__ bool aligned(const P*... p) {
  return ((reinterpret_cast<uintptr_t>(p) | ...) % 16) == 0;
}

// The sum of the squares of each piece: every thread sums its packs in f64, then the block in a fixed order.
__global__ void __launch_bounds__(kThreads) gradient_squares(const SquarePiece* pieces, double* sums) {
  SACCADE_SHARED(double, scratch, kWarp);
  const SquarePiece piece = pieces[blockIdx.x];
  const int64_t packs = aligned(piece.x) ? piece.count / kFour : 0;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < packs; i += kThreads) {
    auto x = load_pack<kFour>(piece.x + i * kFour);
    for (float v : x.x) sum += static_cast<double>(v) * static_cast<double>(v);
  }
  for (int64_t i = packs * kFour + threadIdx.x; i < piece.count; i += kThreads)
    sum += static_cast<double>(piece.x[i]) * static_cast<double>(piece.x[i]);
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) sums[blockIdx.x] = piece.guard ? 0 * sum : sum;
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
  std::vector<SquarePiece> pieces = square_pieces(norm, grads, guards, kPiece);
  auto n = static_cast<int64_t>(pieces.size());
  Tensor table = upload_pieces(pieces, norm.device()), sums = Tensor::empty({n}, DType::kF64, norm.device());
  if (n > 0)
    launch("gradient_squares", &gradient_squares, dim3(static_cast<unsigned>(n)), dim3(kThreads), 0,
           pieces_of<SquarePiece>(table), sums.data<double>());
  launch("gradient_root", &gradient_root, dim3(1), dim3(kNormThreads), 0, sums.data<double>(), n,
         norm.data<double>());
}

__global__ void __launch_bounds__(kThreads)
    adamw_update(const AdamWPiece* pieces, const double* norm, AdamWConstants constants) {
  if (!usable(*norm)) return;
  const AdamWPiece piece = pieces[blockIdx.x];
  const float scale = clip_scale(*norm, constants.max_norm);
  const int64_t packs = aligned(piece.p, piece.g, piece.m, piece.v, piece.average) ? piece.count / kFour : 0;
  for (int64_t i = threadIdx.x; i < packs; i += kThreads) {
    const int64_t at = i * kFour;
    auto p = load_pack<kFour>(piece.p + at), m = load_pack<kFour>(piece.m + at),
         v = load_pack<kFour>(piece.v + at);
    Pack<float, kFour> average{};
    if (piece.average) average = load_pack<kFour>(piece.average + at);
    const auto g = load_pack<kFour>(piece.g + at);
    for (int k = 0; k < kFour; ++k) adamw_element(piece, constants, g.x[k] * scale, p.x[k], m.x[k], v.x[k]);
    store_pack(piece.p + at, p);
    store_pack(piece.m + at, m);
    store_pack(piece.v + at, v);
    if (!piece.average) continue;
    for (int k = 0; k < kFour; ++k) average.x[k] = moved(average.x[k], p.x[k], constants.average_weight);
    store_pack(piece.average + at, average);
  }
  for (int64_t i = packs * kFour + threadIdx.x; i < piece.count; i += kThreads) {
    adamw_element(piece, constants, piece.g[i] * scale, piece.p[i], piece.m[i], piece.v[i]);
    if (piece.average) piece.average[i] = moved(piece.average[i], piece.p[i], constants.average_weight);
  }
}

void adamw_step_cuda(const Tensor& norm, double max_norm, std::span<OptimizerItem> items,
                     const AdamWOptions& o, double average_weight) {
  std::vector<AdamWPiece> pieces = adamw_pieces(items, o, kPiece);
  if (pieces.empty()) return;
  Tensor table = upload_pieces(pieces, norm.device());
  launch("adamw_update", &adamw_update, dim3(static_cast<unsigned>(pieces.size())), dim3(kThreads), 0,
         pieces_of<AdamWPiece>(table), norm.data<double>(), AdamWConstants(max_norm, o, average_weight));
}

__global__ void __launch_bounds__(kThreads)
    sgd_update(const SgdPiece* pieces, const double* norm, double max_norm) {
  if (!usable(*norm)) return;
  const SgdPiece piece = pieces[blockIdx.x];
  const float scale = clip_scale(*norm, max_norm);
  for (int64_t i = threadIdx.x; i < piece.count; i += kThreads) {
    float p = piece.p[i], d = piece.g[i] * scale + piece.weight_decay * p;
    if (piece.m) piece.m[i] = d = piece.momentum * piece.m[i] + d;
    piece.p[i] = p - piece.learning_rate * d;
  }
}

void sgd_step_cuda(const Tensor& norm, double max_norm, std::span<OptimizerItem> items, double momentum) {
  std::vector<SgdPiece> pieces = sgd_pieces(items, momentum, kPiece);
  if (pieces.empty()) return;
  Tensor table = upload_pieces(pieces, norm.device());
  launch("sgd_update", &sgd_update, dim3(static_cast<unsigned>(pieces.size())), dim3(kThreads), 0,
         pieces_of<SgdPiece>(table), norm.data<double>(), max_norm);
}

__global__ void __launch_bounds__(kThreads)
    average_update(const EmaPiece* pieces, const double* norm, float weight) {
  if (!usable(*norm)) return;
  const EmaPiece piece = pieces[blockIdx.x];
  const int64_t packs = aligned(piece.average, piece.value) ? piece.count / kFour : 0;
  for (int64_t i = threadIdx.x; i < packs; i += kThreads) {
    auto a = load_pack<kFour>(piece.average + i * kFour);
    const auto v = load_pack<kFour>(piece.value + i * kFour);
    for (int k = 0; k < kFour; ++k) a.x[k] = moved(a.x[k], v.x[k], weight);
    store_pack(piece.average + i * kFour, a);
  }
  for (int64_t i = packs * kFour + threadIdx.x; i < piece.count; i += kThreads)
    piece.average[i] = moved(piece.average[i], piece.value[i], weight);
}

void ema_update_cuda(const Tensor& norm, std::span<Tensor> averages, std::span<const Tensor> values,
                     double weight) {
  std::vector<EmaPiece> pieces = ema_pieces(averages, values, kPiece);
  if (pieces.empty()) return;
  Tensor table = upload_pieces(pieces, norm.device());
  launch("average_update", &average_update, dim3(static_cast<unsigned>(pieces.size())), dim3(kThreads), 0,
         pieces_of<EmaPiece>(table), norm.data<double>(), static_cast<float>(weight));
}

SACCADE_REGISTER_TUNED_KERNEL(gradient_norm, Device::kCuda, &gradient_norm_cuda);
SACCADE_REGISTER_TUNED_KERNEL(adamw_step, Device::kCuda, &adamw_step_cuda);
SACCADE_REGISTER_TUNED_KERNEL(sgd_step, Device::kCuda, &sgd_step_cuda);
SACCADE_REGISTER_TUNED_KERNEL(ema_update, Device::kCuda, &ema_update_cuda);

}  // namespace
}  // namespace saccade::kernels
