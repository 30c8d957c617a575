// Layer norm: kWidth threads hold a row in registers, so that it is read once: a half or whole warp for up to
// 512 (backward) or 1024 columns, a block for wider rows. The gradients of weight and bias come from the same
// read: every thread keeps the sums of its columns over the rows of its block.
#include "core/kernels/layer_norm/layer_norm.h"

#include "core/kernels/common/column_tiles_cuda.h"
#include "core/kernels/random/dropout_cuda.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kForwardThreads = 128, kWideForward = 256;
constexpr int kBackwardThreads = 256, kWideBackward = 128;
constexpr int kHeld = 32;          // elements of a row in one thread's registers
constexpr int kHeldBackward = 16;  // in a warp's backward, which holds five such arrays
constexpr int64_t kBlocks = 512;   // partial sums of the weight's gradient

template <int kWidth>
__device__ __forceinline__ float sum_of_row(float value, float* scratch) {
  if constexpr (kWidth <= kWarp) {
    return warp_sum<kWidth>(value);
  } else {
    return block_sum(value, scratch);
  }
}

// The dropout applies to x, which may be narrower than the rest.
template <class T, class X, int kPack, int kPacks, int kWidth>
__global__ void __launch_bounds__(kWidth <= kWarp ? kForwardThreads : kWidth)
    layer_norm_forward_rows(const X* x, DropoutBits dropout, const T* residual, const float* weight,
                            const float* bias, float eps, T* y, T* sum, float* mean, float* rstd,
                            int64_t rows, int columns) {
  SACCADE_SHARED(float, scratch, kWarp);
  int thread = static_cast<int>(threadIdx.x) % kWidth;
  int64_t r = static_cast<int64_t>(blockIdx.x) * (blockDim.x / kWidth) + threadIdx.x / kWidth;
  int end = r < rows ? columns : 0;  // a row after the last one has no columns
  float v[kPacks][kPack], total = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    int c = (k * kWidth + thread) * kPack;
    for (int j = 0; j < kPack; ++j) v[k][j] = 0;
    if (c >= end) continue;
    const int64_t at = r * columns + c;
    load_floats<kPack>(x + at, v[k]);
    if (dropout.on()) dropout.apply<X>(at, v[k]);
    if (residual) {
      float b[kPack];
      load_floats<kPack>(residual + at, b);
      Pack<T, kPack> a;
      for (int j = 0; j < kPack; ++j) a.x[j] = T(v[k][j] + b[j]), v[k][j] = static_cast<float>(a.x[j]);
      store_pack<kPack>(sum + at, a);
    }
    for (int j = 0; j < kPack; ++j) total += v[k][j];
  }
  float n = static_cast<float>(columns), mu = sum_of_row<kWidth>(total, scratch) / n, square = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if ((k * kWidth + thread) * kPack >= end) continue;
    for (int j = 0; j < kPack; ++j) square += (v[k][j] - mu) * (v[k][j] - mu);
  }
  float inverse = 1.0f / std::sqrt(sum_of_row<kWidth>(square, scratch) / n + eps);
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    int c = (k * kWidth + thread) * kPack;
    if (c >= end) continue;
    auto w = load_pack<kPack>(weight + c), b = load_pack<kPack>(bias + c);
    Pack<T, kPack> out;
    for (int j = 0; j < kPack; ++j) out.x[j] = T((v[k][j] - mu) * inverse * w.x[j] + b.x[j]);
    store_pack<kPack>(y + r * columns + c, out);
  }
  if (thread == 0 && r < rows) mean[r] = mu, rstd[r] = inverse;
}

// dx = rstd (w g - mean(w g) - xh mean(w g xh)), xh = (x - mean) rstd; partial [2, blocks, columns] gets the
// block's sums of g xh and of g. dropped is dx in the dtype of the forward pass's x, after its dropout. dx,
// dropped and partial may be null, dx only with dropped. The blocks take turns with groups of rows.
template <class T, class X, int kPack, int kPacks, int kWidth>
__global__ void __launch_bounds__(kWidth <= kWarp ? kBackwardThreads : kWidth)
    layer_norm_backward_rows(const T* dy, const T* x, const float* weight, const float* mean,
                             const float* rstd, DropoutBits dropout, T* dx, X* dropped, float* partial,
                             int64_t rows, int columns) {
  SACCADE_SHARED(float, scratch, kWarp);
  int thread = static_cast<int>(threadIdx.x) % kWidth, group = static_cast<int>(threadIdx.x) / kWidth;
  int groups = static_cast<int>(blockDim.x) / kWidth;
  float w[kPacks][kPack], weight_sum[kPacks][kPack] = {}, bias_sum[kPacks][kPack] = {};
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    int c = (k * kWidth + thread) * kPack;
    Pack<float, kPack> p{};
    if (c < columns) p = load_pack<kPack>(weight + c);
    for (int j = 0; j < kPack; ++j) w[k][j] = p.x[j];
  }
  // All threads make the same number of iterations, since the sums of a row need all of them.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < rows;
       first += static_cast<int64_t>(gridDim.x) * groups) {
    int64_t r = first + group;
    bool inside = r < rows;
    int end = inside ? columns : 0;
    float mu = inside ? mean[r] : 0, inverse = inside ? rstd[r] : 0;
    float g[kPacks][kPack], d[kPacks][kPack], a = 0, b = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      int c = (k * kWidth + thread) * kPack;
      Pack<T, kPack> pd{}, px{};
      if (c < end) pd = load_pack<kPack>(dy + r * columns + c), px = load_pack<kPack>(x + r * columns + c);
      for (int j = 0; j < kPack; ++j) {
        g[k][j] = static_cast<float>(pd.x[j]);
        d[k][j] = static_cast<float>(px.x[j]) - mu;
        a += g[k][j] * w[k][j];
        b += g[k][j] * w[k][j] * d[k][j];
        weight_sum[k][j] += g[k][j] * (d[k][j] * inverse);
        bias_sum[k][j] += g[k][j];
      }
    }
    if (!dx) continue;
    float n = static_cast<float>(columns);
    float constant = -inverse * (sum_of_row<kWidth>(a, scratch) / n);
    float factor = -inverse * inverse * inverse * (sum_of_row<kWidth>(b, scratch) / n);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      int c = (k * kWidth + thread) * kPack;
      if (c >= end) continue;
      Pack<T, kPack> out;
      for (int j = 0; j < kPack; ++j)
        out.x[j] = T(inverse * (g[k][j] * w[k][j]) + factor * d[k][j] + constant);
      store_pack<kPack>(dx + r * columns + c, out);
      if (!dropped) continue;
      float v[kPack];
      for (int j = 0; j < kPack; ++j) v[j] = static_cast<float>(X(static_cast<float>(out.x[j])));
      if (dropout.on()) dropout.apply<X>(r * columns + c, v);
      Pack<X, kPack> narrow;
      for (int j = 0; j < kPack; ++j) narrow.x[j] = X(v[j]);
      store_pack<kPack>(dropped + r * columns + c, narrow);
    }
  }
  if (!partial) return;
  if constexpr (kWidth > kWarp) {  // one row at a time: each thread has the complete sums of its columns
    for (int k = 0; k < kPacks; ++k) {
      int c = (k * kWidth + thread) * kPack;
      if (c >= columns) continue;
      float* out = partial + static_cast<int64_t>(blockIdx.x) * columns + c;
      for (int j = 0; j < kPack; ++j) out[j] = weight_sum[k][j];
      out += static_cast<int64_t>(gridDim.x) * columns;
      for (int j = 0; j < kPack; ++j) out[j] = bias_sum[k][j];
    }
  } else {
    SACCADE_SHARED(float, shared, kBackwardThreads* kHeldBackward);
    for (int s = 0; s < 2; ++s) {
      for (int k = 0; k < kPacks; ++k) {
        int c = (k * kWidth + thread) * kPack;
        for (int j = 0; j < kPack; ++j)
          if (c < columns) shared[group * columns + c + j] = s == 0 ? weight_sum[k][j] : bias_sum[k][j];
      }
      __syncthreads();
      for (int c = static_cast<int>(threadIdx.x); c < columns; c += static_cast<int>(blockDim.x)) {
        float sum = 0;
        for (int i = 0; i < groups; ++i) sum += shared[i * columns + c];
        partial[(static_cast<int64_t>(s) * gridDim.x + blockIdx.x) * columns + c] = sum;
      }
      __syncthreads();
    }
  }
}

// Calls f<packs per thread, threads per row>() for rows of `packs` packs, of which a thread of a warp holds
// at most kWarpPacks and one of a block of kBlock threads at most kBlockPacks; the number of packs is the
// smallest that suffices.
template <int kMax, class F>
void dispatch_count(int64_t needed, const F& f) {
  if constexpr (kMax > 8) {
    f.template operator()<kMax>();
  } else if constexpr (kMax > 1) {
    if (needed > kMax / 2) return f.template operator()<kMax>();
    dispatch_count<kMax / 2>(needed, f);
  } else {
    f.template operator()<1>();
  }
}
template <int kWarpPacks, int kBlock, int kBlockPacks, class F>
void dispatch_width(int64_t packs, const F& f) {
  if (packs <= 16) {
    f.template operator()<1, 16>();
  } else if (packs <= kWarp * kWarpPacks) {
    dispatch_count<kWarpPacks>(ceil_div(packs, kWarp),
                               [&]<int kPacks>() { f.template operator()<kPacks, kWarp>(); });
  } else {
    dispatch_count<kBlockPacks>(ceil_div(packs, kBlock),
                                [&]<int kPacks>() { f.template operator()<kPacks, kBlock>(); });
  }
}

// Returns whether `narrow`, if defined, can be moved in packs of as many elements as 16 bytes of `wide` have.
bool rows_fit_half_packs(const Tensor& wide, const Tensor& narrow) {
  const uintptr_t bytes = narrow.defined() ? 16 / size_of(wide.dtype()) * size_of(narrow.dtype()) : 1;
  return !narrow.defined() || reinterpret_cast<uintptr_t>(narrow.raw()) % bytes == 0;
}

DropoutBits bits_of(const RowDropout& drop) {
  return drop.p > 0 ? DropoutBits(drop.p, drop.key, drop.call, drop.first) : DropoutBits();
}

template <class X>
void run_forward(const Tensor& x, const RowDropout& drop, const Tensor& residual, const Tensor& weight,
                 const Tensor& bias, double eps, Tensor& y, Tensor& sum, Tensor& mean, Tensor& rstd) {
  const int64_t rows = y.dim(0), columns = y.dim(1);
  Tensor added = residual.defined() ? sum : Tensor();
  bool packs = rows_fit_packs(columns, y, residual, added, weight, bias) && rows_fit_half_packs(y, x);
  dispatch_packs(y.dtype(), packs, [&]<class T, int kPack>() {
    if constexpr (sizeof(X) <= sizeof(T)) {
      constexpr int kPacksHeld = kHeld / kPack;
      dispatch_width<kPacksHeld, kWideForward, kPacksHeld>(columns / kPack, [&]<int kPacks, int kWidth>() {
        int threads = kWidth <= kWarp ? kForwardThreads : kWidth;
        launch("layer_norm_forward_rows", &layer_norm_forward_rows<T, X, kPack, kPacks, kWidth>,
               {ceil_div(rows, threads / kWidth), threads}, x.data<X>(), bits_of(drop),
               data_or_null<T>(residual), weight.data<float>(), bias.data<float>(), static_cast<float>(eps),
               y.data<T>(), data_or_null<T>(added), mean.data<float>(), rstd.data<float>(), rows,
               static_cast<int>(columns));
      });
    }
  });
}

void forward_cuda(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                  double eps, Tensor& y, Tensor& sum, Tensor& mean, Tensor& rstd) {
  dispatch_dtype<float, bf16>(x.dtype(), "layer_norm", [&]<class X>() {
    run_forward<X>(x, {}, residual, weight, bias, eps, y, sum, mean, rstd);
  });
}

void dropout_norm_forward_cuda(const Tensor& x, const RowDropout& drop, const Tensor& residual,
                               const Tensor& weight, const Tensor& bias, double eps, Tensor& y, Tensor& sum,
                               Tensor& mean, Tensor& rstd) {
  dispatch_dtype<float, bf16>(x.dtype(), "layer_norm", [&]<class X>() {
    run_forward<X>(x, drop, residual, weight, bias, eps, y, sum, mean, rstd);
  });
}

template <class X>
void run_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                  const Tensor& rstd, const RowDropout& drop, Tensor& dx, Tensor& dropped, Tensor& dweight,
                  Tensor& dbias) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  bool affine = dweight.defined() || dbias.defined();
  auto run = [&]<class T, int kPack, int kPacks, int kWidth>() {
    int threads = kWidth <= kWarp ? kBackwardThreads : kWidth;
    int64_t blocks = std::min(ceil_div(rows, 2 * (threads / kWidth)), kBlocks);
    Tensor partial = affine ? Tensor::empty({2, blocks, columns}, DType::kF32, Device::kCuda) : Tensor();
    launch("layer_norm_backward_rows", &layer_norm_backward_rows<T, X, kPack, kPacks, kWidth>,
           {blocks, threads}, dy.data<T>(), x.data<T>(), weight.data<float>(), mean.data<float>(),
           rstd.data<float>(), bits_of(drop), data_or_null<T>(dx), data_or_null<X>(dropped),
           data_or_null<float>(partial), rows, static_cast<int>(columns));
    if (affine)
      launch_join_columns(partial.data<float>(), 2, blocks, columns, 1, 1.0, data_or_null<float>(dweight),
                          data_or_null<float>(dbias));
  };
  const bool packs = rows_fit_packs(columns, dy, x, weight, dx) && rows_fit_half_packs(dy, dropped);
  dispatch_packs(x.dtype(), packs, [&]<class T, int kPack>() {
    if constexpr (sizeof(X) <= sizeof(T)) {
      // Without packs every element needs a separate address and test: 32 of them do not fit the registers.
      constexpr int kBlock = kPack == 1 ? 2 * kWideBackward : kWideBackward;
      dispatch_width<kHeldBackward / kPack, kBlock, kWideBackward * kHeld / (kBlock * kPack)>(
          columns / kPack,
          [&]<int kPacks, int kWidth>() { run.template operator()<T, kPack, kPacks, kWidth>(); });
    }
  });
}

void backward_cuda(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                   const Tensor& rstd, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  dispatch_dtype<float, bf16>(x.dtype(), "layer_norm", [&]<class X>() {
    Tensor none;
    run_backward<X>(dy, x, weight, mean, rstd, {}, dx, none, dweight, dbias);
  });
}

void dropout_norm_backward_cuda(const Tensor& dy, const Tensor& sum, const Tensor& weight, const Tensor& mean,
                                const Tensor& rstd, const RowDropout& drop, Tensor& dresidual, Tensor& dx,
                                Tensor& dweight, Tensor& dbias) {
  dispatch_dtype<float, bf16>(dx.defined() ? dx.dtype() : sum.dtype(), "layer_norm", [&]<class X>() {
    run_backward<X>(dy, sum, weight, mean, rstd, drop, dresidual, dx, dweight, dbias);
  });
}

template <int kMaxColumns, class... A>
bool supported(const Tensor& x, const A&...) {
  return takes_f32_or_bf16(x) && x.dim(1) <= kMaxColumns;
}

template <int kMaxColumns>
bool drops(const Tensor& x, const Tensor& narrow, const RowDropout& drop) {
  const bool narrows = !narrow.defined() || narrow.dtype() == x.dtype() || narrow.dtype() == DType::kBF16;
  return supported<kMaxColumns>(x) && narrows && static_cast<float>(drop.p) < 1;
}
bool drops_forward(const Tensor& x, const RowDropout& drop, const Tensor& residual, const Tensor&,
                   const Tensor&, const double&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  return drops<kWideForward * kHeld>(residual, x, drop);
}
bool drops_backward(const Tensor&, const Tensor& sum, const Tensor&, const Tensor&, const Tensor&,
                    const RowDropout& drop, const Tensor&, const Tensor& dx, const Tensor&, const Tensor&) {
  return drops<kWideBackward * kHeld>(sum, dx, drop);
}

SACCADE_REGISTER_TUNED_KERNEL(dropout_norm_forward, Device::kCuda, &dropout_norm_forward_cuda,
                              &drops_forward);
SACCADE_REGISTER_TUNED_KERNEL(dropout_norm_backward, Device::kCuda, &dropout_norm_backward_cuda,
                              &drops_backward);
SACCADE_REGISTER_TUNED_KERNEL(layer_norm_forward, Device::kCuda, &forward_cuda,
                              &supported<kWideForward * kHeld>);
SACCADE_REGISTER_TUNED_KERNEL(layer_norm_backward, Device::kCuda, &backward_cuda,
                              &supported<kWideBackward * kHeld>);

}  // namespace
}  // namespace saccade::kernels
