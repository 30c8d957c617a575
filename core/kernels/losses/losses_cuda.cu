// Losses: one block per piece, whose threads take turns with neighbouring elements; cross entropy has one
// warp per row.
#include "core/kernels/losses/losses.h"

#include "core/kernels/losses/loss_terms.h"
#include "core/kernels/reduce/reduce.h"
#include "core/runtime/cuda/block.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kThreads = 256;
static_assert(kLossElements % kThreads == 0 && kLossPairs == kThreads);

// A block's part of the rows, and the piece within it.
struct Part {
  uint32_t part, piece;
  __device__ explicit Part(uint32_t pieces) : part(blockIdx.x / pieces), piece(blockIdx.x % pieces) {}
};

// x [rows, classes] with n elements per part; grad may be null.
template <class Term>
__global__ void __launch_bounds__(kThreads)
    dense_loss(const float* x, const int64_t* labels, Term term, double* partial, float* grad, uint32_t n,
               uint32_t classes, uint32_t pieces) {
  SACCADE_SHARED(float, scratch, kWarp);
  const Part at(pieces);
  const uint32_t first = at.piece * static_cast<uint32_t>(kLossElements) + threadIdx.x;
  const uint32_t first_row = at.part * (n / classes);
  x += static_cast<size_t>(at.part) * n;
  if (grad) grad += static_cast<size_t>(at.part) * n;
  float sum = 0;
#pragma unroll
  for (uint32_t e = 0; e < kLossElements; e += kThreads) {
    uint32_t i = first + e;
    if (i >= n) continue;
    uint32_t row = i / classes;
    bool hit = labels[first_row + row] == static_cast<int64_t>(i - row * classes);
    LossTerm<float> t = term(x[i], hit ? term.at_label(first_row + row) : Term::kElsewhere);
    if (grad) grad[i] = t.slope;
    sum += t.loss;
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = static_cast<double>(sum);
}

// weights and the pointer to their sum may be null (all 1), and so may grad.
__global__ void __launch_bounds__(kLossRows* kWarp)
    cross_entropy_rows(const float* x, const int64_t* labels, const float* weights, const float* weight_sum,
                       float smoothing, double* partial, float* grad, int64_t rows, int classes,
                       uint32_t pieces) {
  SACCADE_SHARED(double, losses, kLossRows);
  const Part at(pieces);
  int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  int64_t r = at.piece * kLossRows + warp;
  if (r < rows && labels[at.part * rows + r] < 0) {  // true for a whole warp
    for (int k = lane; grad && k < classes; k += kWarp) grad[(at.part * rows + r) * classes + k] = 0;
    if (lane == 0) losses[warp] = 0;
  } else if (r < rows) {
    r += at.part * rows;
    const float* px = x + r * classes;
    int label = static_cast<int>(labels[r]);
    float top = px[0];
    for (int k = lane; k < classes; k += kWarp) top = math::max(top, px[k]);
    // A NaN must propagate: the warp's maximum loses it, but the sum does not.
    top = warp_max(top);
    float sum = 0;
    for (int k = lane; k < classes; k += kWarp) sum += math::exp(px[k] - top);
    sum = warp_sum(sum);
    float log_sum = top + math::log(sum);
    float hard = (1 - smoothing) * (weights ? weights[label] : 1.0f);
    float soft = smoothing / static_cast<float>(classes);
    float loss = hard * (log_sum - px[label]);
    if (soft > 0) {
      float spread = 0;
      for (int k = lane; k < classes; k += kWarp) spread += (weights ? weights[k] : 1.0f) * (log_sum - px[k]);
      loss += soft * warp_sum(spread);
    }
    if (grad) {
      float mass = (hard + soft * (weight_sum ? weight_sum[0] : static_cast<float>(classes))) / sum;
      for (int k = lane; k < classes; k += kWarp) {
        float g = mass * math::exp(px[k] - top) - soft * (weights ? weights[k] : 1.0f);
        grad[r * classes + k] = k == label ? g - hard : g;
      }
    }
    if (lane == 0) losses[warp] = static_cast<double>(loss);
  } else if (lane == 0) {
    losses[warp] = 0;
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  double total = 0;
  for (int i = 0; i < kLossRows; ++i) total += losses[i];
  partial[blockIdx.x] = total;
}

// One thread per pair; grad may be null.
__global__ void __launch_bounds__(kThreads)
    giou_pairs(const float* boxes, const float* targets, double* partial, float* grad, int64_t pairs,
               uint32_t pieces) {
  SACCADE_SHARED(double, scratch, kWarp);
  const Part at(pieces);
  int64_t p = static_cast<int64_t>(at.piece) * kThreads + threadIdx.x;
  double loss = 0;
  if (p < pairs) {
    p += at.part * pairs;
    auto b = load_pack<4>(boxes + 4 * p), t = load_pack<4>(targets + 4 * p);
    Pack<float, 4> g;
    loss = static_cast<double>(giou_pair(b.x, t.x, grad ? g.x : nullptr));
    if (grad) store_pack<4>(grad + 4 * p, g);
  }
  loss = block_sum(loss, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = loss;
}

// One thread per box; grad may be null.
__global__ void __launch_bounds__(kThreads) l1_boxes(const float* x, const float* targets, double* partial,
                                                     float* grad, int64_t boxes, uint32_t pieces) {
  static_assert(kLossElements == 4 * kThreads);
  SACCADE_SHARED(float, scratch, kWarp);
  const Part at(pieces);
  int64_t i = static_cast<int64_t>(at.piece) * kThreads + threadIdx.x;
  float sum = 0;
  if (i < boxes) {
    i += at.part * boxes;
    auto a = load_pack<4>(x + 4 * i), b = load_pack<4>(targets + 4 * i);
    for (int j = 0; j < 4; ++j) {
      LossTerm<float> t = l1_term(a.x[j], b.x[j]);
      sum += t.loss;
      a.x[j] = t.slope;
    }
    if (grad) store_pack<4>(grad + 4 * i, a);
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = static_cast<double>(sum);
}

uint32_t pieces_of(const Tensor& partial) { return static_cast<uint32_t>(partial.dim(1)); }

template <class... A>
bool supports_classes(const Tensor& x, const A&...) {
  return x.dtype() == DType::kF32 && x.numel() > 0 && x.numel() <= UINT32_MAX - kLossElements;
}

void decision_loss_cuda(const Tensor& x, const Tensor& labels, const Tensor& quality,
                        const DecisionParams& params, Tensor& partial, Tensor& grad) {
  with_decision_term<float>(params, quality, [&]<class Term>(const Term& term) {
    launch("dense_loss", &dense_loss<Term>, {partial.numel(), kThreads}, x.data<float>(),
           labels.data<int64_t>(), term, partial.data<double>(), data_or_null<float>(grad),
           static_cast<uint32_t>(x.numel() / partial.dim(0)), static_cast<uint32_t>(x.dim(1)),
           pieces_of(partial));
  });
}

void cross_entropy_loss_cuda(const Tensor& x, const Tensor& labels, const Tensor& weights, double smoothing,
                             Tensor& partial, Tensor& grad) {
  Tensor total;
  if (weights.defined() && smoothing > 0) {
    total = Tensor::empty({}, DType::kF32, Device::kCuda);
    sum_to_shape(weights, 1, total);
  }
  launch("cross_entropy_rows", &cross_entropy_rows, {partial.numel(), kLossRows * kWarp}, x.data<float>(),
         labels.data<int64_t>(), data_or_null<float>(weights), data_or_null<float>(total),
         static_cast<float>(smoothing), partial.data<double>(), data_or_null<float>(grad),
         x.dim(0) / partial.dim(0), static_cast<int>(x.dim(1)), pieces_of(partial));
}

bool supports_boxes(const Tensor& boxes, const Tensor& targets, const Tensor&, const Tensor& grad) {
  return boxes.dtype() == DType::kF32 && boxes.numel() > 0 && rows_fit_packs(4, boxes, targets, grad);
}

template <class Function>
void launch_boxes(const char* name, Function function, const Tensor& boxes, const Tensor& targets,
                  Tensor& partial, Tensor& grad) {
  launch(name, function, {partial.numel(), kThreads}, boxes.data<float>(), targets.data<float>(),
         partial.data<double>(), data_or_null<float>(grad), boxes.dim(0) / partial.dim(0),
         pieces_of(partial));
}
void giou_loss_cuda(const Tensor& boxes, const Tensor& targets, Tensor& partial, Tensor& grad) {
  launch_boxes("giou_pairs", &giou_pairs, boxes, targets, partial, grad);
}
void l1_loss_cuda(const Tensor& boxes, const Tensor& targets, Tensor& partial, Tensor& grad) {
  launch_boxes("l1_boxes", &l1_boxes, boxes, targets, partial, grad);
}

SACCADE_REGISTER_TUNED_KERNEL(decision_loss, Device::kCuda, &decision_loss_cuda, &supports_classes);
SACCADE_REGISTER_TUNED_KERNEL(cross_entropy_loss, Device::kCuda, &cross_entropy_loss_cuda, &supports_classes);
SACCADE_REGISTER_TUNED_KERNEL(giou_loss, Device::kCuda, &giou_loss_cuda, &supports_boxes);
SACCADE_REGISTER_TUNED_KERNEL(l1_loss, Device::kCuda, &l1_loss_cuda, &supports_boxes);

}  // namespace
}  // namespace saccade::kernels
