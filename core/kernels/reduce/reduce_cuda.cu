// Sums. For columns, see core/kernels/common/column_tiles_cuda.h. For rows, a warp or a block adds a chunk of
// a row, with neighbouring packs in neighbouring threads; the chunks' sums are added the same way. The split
// depends only on the shape.
#include "core/kernels/reduce/reduce.h"

#include "core/kernels/common/column_tiles_cuda.h"
#include "core/kernels/copy/copy.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kThreads = 256;
constexpr int64_t kShort = 64;       // longest sum of a single thread
constexpr int64_t kWarpRow = 1024;   // longest row of one warp
constexpr int64_t kChunk = 1 << 13;  // elements of a longer row in one block

// The number to add, in type A.
struct Value {
  template <class A, class T>
  __device__ static A of(T v) {
    return static_cast<A>(static_cast<acc_t<T>>(v));
  }
};
struct Nonfinite {
  template <class A, class T>
  __device__ static A of(T v) {
    A a = Value::of<A>(v);
    return a - a == a - a ? A(0) : A(1);  // the difference is 0 for finite values and NaN otherwise
  }
};

// y[row, chunk] = scale * sum of the chunk; kWidth threads per chunk
template <class What, class A, int kPack, int kWidth, class From, class To>
__global__ void __launch_bounds__(kThreads)
    row_sums(const From* x, To* y, int64_t count, int64_t n, int64_t chunks, A scale) {
  SACCADE_SHARED(A, scratch, kWarp);
  int64_t i = static_cast<int64_t>(blockIdx.x) * (kThreads / kWidth) + threadIdx.x / kWidth;
  int thread = static_cast<int>(threadIdx.x) % kWidth;
  bool inside = i < count;
  int64_t begin = i % chunks * kChunk, end = !inside ? 0 : begin + kChunk < n ? begin + kChunk : n;
  const From* row = x + i / chunks * n;
  A sum = 0;
#pragma unroll 4
  for (int64_t k = begin + thread * kPack; k < end; k += kWidth * kPack) {
    auto p = load_pack<kPack>(row + k);
    for (int j = 0; j < kPack; ++j) sum += What::template of<A>(p.x[j]);
  }
  if constexpr (kWidth == kWarp) {
    sum = warp_sum(sum);
  } else {
    sum = block_sum(sum, scratch);
  }
  if (thread == 0 && inside) y[i] = static_cast<To>(scale * sum);
}

// y[o, c] = scale * sum over the short middle axis of x [outer, n, inner]: one thread per output
template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    short_sums(const From* x, To* y, int64_t count, int64_t n, int64_t inner, acc_t<To> scale) {
  using A = acc_t<To>;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const From* p = x + i / inner * n * inner + i % inner;
  A sum = 0;
#pragma unroll 4
  for (int64_t k = 0; k < n; ++k) sum += Value::of<A>(p[k * inner]);
  y[i] = static_cast<To>(scale * sum);
}

template <class T, int kPack>
struct PlainColumns {
  const T* x;
  int64_t rows, columns;
  __device__ PlainColumns at(int64_t b, int64_t c) const {
    return {x + b * rows * columns + c, rows, columns};
  }
  __device__ void operator()(int64_t r, float (&sum)[1][kPack]) const {
    auto p = load_pack<kPack>(x + r * columns);
    for (int j = 0; j < kPack; ++j) sum[0][j] += static_cast<float>(p.x[j]);
  }
};

template <class What, class A, class From, class To>
void sum_rows(const From* x, To* y, int64_t rows, int64_t n, double scale) {
  auto run = [&]<int kPack, int kWidth, class Out>(Out* out, int64_t chunks, double factor) {
    int64_t count = rows * chunks;
    launch("row_sums", &row_sums<What, A, kPack, kWidth, From, Out>,
           {ceil_div(count, kThreads / kWidth), kThreads}, x, out, count, n, chunks, static_cast<A>(factor));
  };
  constexpr int kPack = kPackWidth<From>;
  bool packs = packs_fit<kPack>(x, n);
  if (n <= kWarpRow)
    return packs ? run.template operator()<kPack, kWarp>(y, 1, scale)
                 : run.template operator()<1, kWarp>(y, 1, scale);
  int64_t chunks = ceil_div(n, kChunk);
  auto blocks = [&](auto* out, double factor) {
    packs ? run.template operator()<kPack, kThreads>(out, chunks, factor)
          : run.template operator()<1, kThreads>(out, chunks, factor);
  };
  if (chunks == 1) return blocks(y, scale);
  Tensor partial = Tensor::empty({rows, chunks}, dtype_of<A>, Device::kCuda);
  blocks(partial.data<A>(), 1.0);
  sum_rows<Value, A, A, To>(partial.data<A>(), y, rows, chunks, scale);
}

template <class T, class To>
void sum_middle_typed(const Tensor& x, double scale, Tensor& y) {
  int64_t outer = x.dim(0), n = x.dim(1), inner = x.dim(2);
  const T* px = x.data<T>();
  To* py = y.data<To>();
  if (n <= (inner == 1 ? kWarp : kShort)) {
    launch("short_sums", &short_sums<T, To>, {ceil_div(outer * inner, kThreads), kThreads}, px, py,
           outer * inner, n, inner, static_cast<acc_t<To>>(scale));
    return;
  }
  if (inner == 1) return sum_rows<Value, acc_t<To>>(px, py, outer, n, scale);
  if constexpr (!std::is_same_v<T, double>) {  // see supported()
    constexpr int kWidth = kPackWidth<T>;
    with_packs<kWidth>(packs_fit<kWidth>(px, inner), [&]<int kPack>() {
      sum_columns<kPack, 1>(ColumnTiles(outer, n, inner, kPack), PlainColumns<T, kPack>{px, n, inner}, scale,
                            py);
    });
  }
}

void sum_middle_cuda(const Tensor& x, double scale, Tensor& y) {
  dispatch_float(x.dtype(), "sum_to_shape", [&]<class T>() {
    y.dtype() == x.dtype() ? sum_middle_typed<T, T>(x, scale, y) : sum_middle_typed<T, acc_t<T>>(x, scale, y);
  });
}

// Long columns of f64 have no kernel.
bool supported(const Tensor& x, const double&, const Tensor&) {
  return x.dtype() != DType::kF64 || x.dim(2) == 1 || x.dim(1) <= kShort;
}

void count_nonfinite_cuda(const Tensor& x, Tensor& total) {
  if (x.numel() == 0) return fill(total, 0);
  dispatch_float(x.dtype(), "count_nonfinite", [&]<class T>() {
    sum_rows<Nonfinite, double>(x.data<T>(), total.data<double>(), 1, x.numel(), 1.0);
  });
}

SACCADE_REGISTER_TUNED_KERNEL(sum_middle, Device::kCuda, &sum_middle_cuda, &supported);
SACCADE_REGISTER_TUNED_KERNEL(count_nonfinite, Device::kCuda, &count_nonfinite_cuda);

}  // namespace
}  // namespace saccade::kernels
