// Shared by batch norm and group norm on the GPU: x viewed as [B, S, C], with C in groups of `size` channels
// (batch norm: B = 1, size = 1). Statistics take two stages, with means computed before squares, so that a
// large mean costs no precision; then y = act((x - mean) * scale + shift) with the threads' columns in
// registers.
#pragma once

#include "core/kernels/activation/activations.h"
#include "core/kernels/common/column_tiles_cuda.h"

namespace saccade::kernels {

struct NormSizes {
  int64_t B, S, C, groups;
  SACCADE_HD int64_t group_of(int64_t b, int64_t c) const {
    const uint32_t size = static_cast<uint32_t>(C) / static_cast<uint32_t>(groups);
    return b * groups + static_cast<uint32_t>(c) / size;
  }
};

// Count, mean and sum of squared deviations of some rows.
struct Moments {
  float n, mean, m2;
  // Chan, Golub, LeVeque 1979
  __device__ void join(const Moments& o) {
    if (o.n == 0) return;
    float total = n + o.n, d = o.mean - mean, fraction = o.n / total;
    mean += d * fraction;
    m2 += o.m2 + d * d * (n * fraction);
    n = total;
  }
};

// Computes the moments of a run of rows, [B, runs, C] each. A thread joins batches of kBatch rows that it
// holds in registers, then the levels are joined as a tree.
template <class T, int kPack>
__global__ void __launch_bounds__(cuda::kColumnThreads)
    column_moments(cuda::ColumnTiles t, const T* x, float* mean, float* m2) {
  using namespace cuda;
  constexpr int kBatch = 4;
  SACCADE_SHARED(float, counts, kColumnThreads);
  SACCADE_SHARED(float, means, kColumnThreads* kPack);
  SACCADE_SHARED(float, squares, kColumnThreads* kPack);
  ColumnPosition p = t.position();
  int levels = t.levels(), thread = static_cast<int>(threadIdx.x);
  Moments own[kPack];
  for (int j = 0; j < kPack; ++j) own[j] = {0, 0, 0};
  const T* px = x + p.batch * t.rows * t.columns + p.column;
  for (int64_t r = p.row; r < p.end; r += kBatch * levels) {
    Pack<T, kPack> held[kBatch];
    int count = 0;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (r + i * levels >= p.end) continue;
      held[i] = load_pack<kPack>(px + (r + i * levels) * t.columns);
      ++count;
    }
    float n = static_cast<float>(count);
    for (int j = 0; j < kPack; ++j) {
      float sum = 0, square = 0;
#pragma unroll
      for (int i = 0; i < kBatch; ++i) sum += i < count ? static_cast<float>(held[i].x[j]) : 0.0f;
      float mu = sum / n;
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        float d = i < count ? static_cast<float>(held[i].x[j]) - mu : 0.0f;
        square += d * d;
      }
      own[j].join({n, mu, square});
    }
  }
  counts[thread] = own[0].n;
  for (int j = 0; j < kPack; ++j) {
    means[j * kColumnThreads + thread] = own[j].mean;
    squares[j * kColumnThreads + thread] = own[j].m2;
  }
  for (int half = levels / 2; half > 0; half /= 2) {
    __syncthreads();
    if (p.level >= half) continue;
    int other = thread + half * t.lanes;
    for (int j = 0; j < kPack; ++j) {
      int at = j * kColumnThreads;
      own[j].join({counts[other], means[at + other], squares[at + other]});
      means[at + thread] = own[j].mean;
      squares[at + thread] = own[j].m2;
    }
    counts[thread] = own[0].n;
  }
  if (p.level > 0 || p.column >= t.columns) return;
  int64_t at = (p.batch * t.runs + p.run) * t.columns + p.column;
  for (int j = 0; j < kPack; ++j) mean[at + j] = own[j].mean, m2[at + j] = own[j].m2;
}

// kWidth threads, a warp or a block, join the runs and channels of a group in f64 and call finish(group
// index, mean, m2).
template <int kWidth, class Finish>
__global__ void __launch_bounds__(cuda::kColumnThreads)
    join_moments(NormSizes v, int64_t run, int64_t runs, const float* mean, const float* m2, Finish finish) {
  using namespace cuda;
  SACCADE_SHARED(double, scratch, kWarp);
  auto sum = [&](double value) {
    if constexpr (kWidth == kWarp) {
      return warp_sum(value);
    } else {
      return block_sum(value, scratch);
    }
  };
  int64_t group = static_cast<int64_t>(blockIdx.x) * (kColumnThreads / kWidth) + threadIdx.x / kWidth;
  if (group >= v.B * v.groups) return;  // for a whole warp
  int64_t size = v.C / v.groups, items = runs * size,
          at = group / v.groups * runs * v.C + group % v.groups * size;
  int thread = static_cast<int>(threadIdx.x) % kWidth;
  auto rows = [&](int64_t j) { return static_cast<double>(j + 1 < runs ? run : v.S - j * run); };
  double total = 0, square = 0;
  for (int64_t i = thread; i < items; i += kWidth)
    total += rows(i / size) * static_cast<double>(mean[at + i / size * v.C + i % size]);
  double mu = sum(total) / static_cast<double>(v.S * size);
  for (int64_t i = thread; i < items; i += kWidth) {
    int64_t k = at + i / size * v.C + i % size;
    double d = static_cast<double>(mean[k]) - mu;
    square += static_cast<double>(m2[k]) + rows(i / size) * d * d;
  }
  square = sum(square);
  if (thread == 0) finish(group, mu, square);
}

template <class T, int kPack, class Finish>
void norm_moments(const NormSizes& v, const T* x, const Finish& finish) {
  using namespace cuda;
  ColumnTiles t(v.B, v.S, v.C, kPack);
  Tensor partial = Tensor::empty({2, v.B * t.runs * v.C}, DType::kF32, Device::kCuda);
  float *mean = partial.data<float>(), *m2 = mean + v.B * t.runs * v.C;
  launch("column_moments", &column_moments<T, kPack>, {t.blocks(), kColumnThreads}, t, x, mean, m2);
  constexpr int64_t kMaxWarpSums = 2 * kWarp;  // sums that a warp takes in two rounds
  bool few = t.runs * (v.C / v.groups) <= kMaxWarpSums;
  int64_t blocks = few ? ceil_div(v.B * v.groups, kColumnThreads / kWarp) : v.B * v.groups;
  launch("join_moments", few ? &join_moments<kWarp, Finish> : &join_moments<kColumnThreads, Finish>,
         {blocks, kColumnThreads}, v, t.run, t.runs, mean, m2, finish);
}

// The parameters of a thread's columns.
template <int kPack>
struct NormColumns {
  float mean[kPack], scale[kPack], shift[kPack];
  int64_t group[kPack];
  __device__ NormColumns(const NormSizes& v, int64_t b, int64_t first, const float* all_means,
                         const float* rstd, const float* weight, const float* bias) {
    for (int j = 0; j < kPack; ++j) {
      group[j] = v.group_of(b, first + j);
      mean[j] = all_means[group[j]];
      scale[j] = rstd[group[j]] * weight[first + j];
      shift[j] = bias ? bias[first + j] : 0;
    }
  }
};

// y = act((x - mean) rstd weight + bias)
template <class F, class T, int kPack>
__global__ void __launch_bounds__(cuda::kColumnThreads)
    norm_apply(cuda::ColumnTiles t, NormSizes v, const T* x, const float* mean, const float* rstd,
               const float* weight, const float* bias, T* y) {
  using namespace cuda;
  ColumnPosition p = t.position();
  if (p.row >= p.end) return;
  NormColumns<kPack> own(v, p.batch, p.column, mean, rstd, weight, bias);
#pragma unroll 4
  for (int64_t r = p.row; r < p.end; r += t.levels()) {
    int64_t at = (p.batch * t.rows + r) * t.columns + p.column;
    auto a = load_pack<kPack>(x + at);
    for (int j = 0; j < kPack; ++j) {
      float z = (static_cast<float>(a.x[j]) - own.mean[j]) * own.scale[j] + own.shift[j];
      a.x[j] = T(F::value(z));
    }
    store_pack<kPack>(y + at, a);
  }
}

template <class F, class T, int kPack>
void launch_norm_apply(const NormSizes& v, const T* x, const float* mean, const float* rstd,
                       const float* weight, const float* bias, T* y) {
  using namespace cuda;
  ColumnTiles t(v.B, v.S, v.C, kPack, kApplyBlocks);
  launch("norm_apply", &norm_apply<F, T, kPack>, {t.blocks(), kColumnThreads}, t, v, x, mean, rstd, weight,
         bias, y);
}

// Sums over the rows of g and of g (x - mean), g = dy act'(z) with z recomputed from x.
template <class F, class T, int kPack>
struct NormGradientSums {
  NormSizes v;
  const T *dy, *x;
  const float *mean, *rstd, *weight, *bias;

  struct Column {
    const T *dy, *x;
    int64_t step;
    NormColumns<kPack> own;
    __device__ void operator()(int64_t r, float (&sum)[2][kPack]) const {
      auto pd = cuda::load_pack<kPack>(dy + r * step), px = cuda::load_pack<kPack>(x + r * step);
      for (int j = 0; j < kPack; ++j) {
        float d = static_cast<float>(px.x[j]) - own.mean[j], g = static_cast<float>(pd.x[j]);
        if constexpr (!is_identity<F>) g = gradient_at<F>(d * own.scale[j] + own.shift[j], g);
        sum[0][j] += g;
        sum[1][j] += g * d;
      }
    }
  };
  __device__ Column at(int64_t b, int64_t c) const {
    int64_t start = b * v.S * v.C + c;
    return {dy + start, x + start, v.C, NormColumns<kPack>(v, b, c, mean, rstd, weight, bias)};
  }
};

// dx = scale g + factor (x - mean) + constant, scale = rstd weight; mean, rstd, factor and constant are
// [B, groups].
template <class F, class T, int kPack>
__global__ void __launch_bounds__(cuda::kColumnThreads)
    norm_backward(cuda::ColumnTiles t, NormSizes v, const T* dy, const T* x, const float* mean,
                  const float* rstd, const float* weight, const float* bias, const float* factor,
                  const float* constant, T* dx) {
  using namespace cuda;
  ColumnPosition p = t.position();
  if (p.row >= p.end) return;
  NormColumns<kPack> own(v, p.batch, p.column, mean, rstd, weight, bias);
  float f[kPack], k[kPack];
  for (int j = 0; j < kPack; ++j) f[j] = factor[own.group[j]], k[j] = constant[own.group[j]];
#pragma unroll 2
  for (int64_t r = p.row; r < p.end; r += t.levels()) {
    int64_t at = (p.batch * t.rows + r) * t.columns + p.column;
    auto pd = load_pack<kPack>(dy + at), px = load_pack<kPack>(x + at);
    for (int j = 0; j < kPack; ++j) {
      float d = static_cast<float>(px.x[j]) - own.mean[j], g = static_cast<float>(pd.x[j]);
      if constexpr (!is_identity<F>) g = gradient_at<F>(d * own.scale[j] + own.shift[j], g);
      pd.x[j] = T(own.scale[j] * g + f[j] * d + k[j]);
    }
    store_pack<kPack>(dx + at, pd);
  }
}

template <class F, class T, int kPack>
void launch_norm_backward(const NormSizes& v, const T* dy, const T* x, const float* mean, const float* rstd,
                          const float* weight, const float* bias, const float* factor, const float* constant,
                          T* dx) {
  using namespace cuda;
  ColumnTiles t(v.B, v.S, v.C, kPack, kApplyBlocks);
  launch("norm_backward", &norm_backward<F, T, kPack>, {t.blocks(), kColumnThreads}, t, v, dy, x, mean, rstd,
         weight, bias, factor, constant, dx);
}

}  // namespace saccade::kernels
