#include "core/kernels/reduce/reduce.h"

#include <algorithm>
#include <type_traits>

#include "core/kernels/common/lane_reduce.h"
#include "core/kernels/copy/copy.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

// The longest run that one functor call sums; longer ones are split, and their sums are summed likewise.
constexpr int64_t kRun = 1024;
constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 64;

// partial[o, b] = scale * sum of run b of row o of x [outer, n]
template <class From, class To>
struct SumRuns {
  const From* x;
  To* partial;
  int64_t n, runs;
  acc_t<To> scale;
  SACCADE_HD void operator()(int64_t i) const {
    using A = acc_t<To>;
    int64_t begin = i % runs * kRun, length = n - begin < kRun ? n - begin : kRun;
    const From* p = x + i / runs * n + begin;
    partial[i] = To(scale * lane_sum<A>(length, [p](int64_t k) { return A(p[k]); }));
  }
};

// partial[o, b, c] = scale * sum over row block b of column c of x [outer, rows, columns]
template <class From, class To>
struct SumColumns {
  const From* x;
  To* partial;
  int64_t rows, columns, blocks, chunks;
  acc_t<To> scale;
  SACCADE_HD void operator()(int64_t i) const {
    using A = acc_t<To>;
    int64_t c0 = i % chunks * kColumns, block = i / chunks % blocks, o = i / chunks / blocks;
    int64_t r0 = block * kRows, count = rows - r0 < kRows ? rows - r0 : kRows;
    const From* p = x + (o * rows + r0) * columns + c0;
    To* out = partial + (o * blocks + block) * columns + c0;
    A acc[kColumns];
    for (int c = 0; c < kColumns; ++c) acc[c] = A(0);
    if (c0 + kColumns <= columns) {
      for (int64_t r = 0; r < count; ++r, p += columns)
        for (int c = 0; c < kColumns; ++c) acc[c] += A(p[c]);
      for (int c = 0; c < kColumns; ++c) out[c] = To(scale * acc[c]);
    } else {
      int width = static_cast<int>(columns - c0);
      for (int64_t r = 0; r < count; ++r, p += columns)
        for (int c = 0; c < width; ++c) acc[c] += A(p[c]);
      for (int c = 0; c < width; ++c) out[c] = To(scale * acc[c]);
    }
  }
};

// y [outer, inner] = scale * sum over the middle axis of x [outer, n, inner]
template <class From, class To>
void sum_chunks(const From* x, To* y, int64_t outer, int64_t n, int64_t inner, double scale, Device device) {
  using A = acc_t<To>;
  bool by_rows = inner == 1;
  int64_t parts = by_rows ? ceil_div(n, kRun) : ceil_div(n, kRows);
  int64_t chunks = ceil_div(inner, kColumns);
  auto launch = [&]<class Out>(Out* out, double factor) {
    if (by_rows) {
      for_each(outer * parts, SumRuns<From, Out>{x, out, n, parts, A(factor)}, n < kRun ? n : kRun);
    } else {
      for_each(outer * parts * chunks, SumColumns<From, Out>{x, out, n, inner, parts, chunks, A(factor)},
               (n < kRows ? n : kRows) * (inner < kColumns ? inner : kColumns));
    }
  };
  if (parts == 1) {
    launch(y, scale);
    return;
  }
  Tensor partial = Tensor::empty({outer, parts, inner}, dtype_of<A>, device);
  launch(partial.data<A>(), 1.0);
  sum_chunks<A, To>(partial.data<A>(), y, outer, parts, inner, scale, device);
}

void sum_middle_generic(const Tensor& x, double scale, Tensor& y) {
  dispatch_float(x.dtype(), "sum_to_shape", [&]<class T>() {
    auto run = [&]<class To>() {
      sum_chunks<T, To>(x.data<T>(), y.data<To>(), x.dim(0), x.dim(1), x.dim(2), scale, x.device());
    };
    if constexpr (!std::is_same_v<T, acc_t<T>>)
      if (y.dtype() != x.dtype()) return run.template operator()<acc_t<T>>();
    run.template operator()<T>();
  });
}

// x's axes as alternating groups of kept and summed ones, without size-1 axes.
struct Groups {
  int count = 0;
  int64_t sizes[Shape::kMaxRank] = {};
  bool summed[Shape::kMaxRank] = {};

  Groups(const Shape& x, const Shape& y) {
    for (int a = 0; a < x.rank(); ++a) {
      int b = a - (x.rank() - y.rank());
      bool sum = b < 0 || y[b] != x[a];
      SACCADE_CHECK(!sum || b < 0 || y[b] == 1, "[sum_to_shape] shape {} does not broadcast to {}", y, x);
      if (x[a] == 1) continue;
      if (count > 0 && summed[count - 1] == sum) {
        sizes[count - 1] *= x[a];
      } else {
        sizes[count] = x[a];
        summed[count++] = sum;
      }
    }
  }
};

void sum_to_shape_generic(const Tensor& x, double scale, Tensor& y) {
  SACCADE_CHECK(x.rank() >= y.rank(), "[sum_to_shape] shape {} does not broadcast to {}", y.shape(),
                x.shape());
  if (y.numel() == 0) return;
  if (x.numel() == 0) {
    fill(y, 0);
    return;
  }
  const Groups g(x.shape(), y.shape());
  auto sums_left = std::count(g.summed, g.summed + g.count, true);
  if (sums_left == 0) {
    Tensor out = y.reshape({y.numel(), 1});
    return sum_middle(x.reshape({x.numel(), 1, 1}), scale, out);
  }
  // The last summed group comes first: the groups after it are one run, and each sum leaves less to read.
  Tensor source = x;
  int64_t outer = x.numel(), inner = 1;
  for (int i = g.count - 1; sums_left > 0; --i) {
    outer /= g.sizes[i];
    if (!g.summed[i]) {
      inner *= g.sizes[i];
      continue;
    }
    --sums_left;
    const bool into_y = sums_left == 0 && (source.dtype() == x.dtype() || source.dtype() == y.dtype());
    Tensor sum =
        into_y ? y.reshape({outer, inner}) : Tensor::empty({outer, inner}, sum_dtype(x.dtype()), x.device());
    sum_middle(source.reshape({outer, g.sizes[i], inner}), sums_left == 0 ? scale : 1.0, sum);
    source = sum;
  }
  if (source.dtype() != y.dtype()) copy(source.reshape(y.shape()), y);
}

template <class T>
struct NonfiniteRuns {
  const T* x;
  double* partial;
  int64_t n;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t begin = i * kRun, length = n - begin < kRun ? n - begin : kRun;
    const T* p = x + begin;
    // v - v is 0 for finite v and NaN otherwise.
    partial[i] = static_cast<double>(lane_sum<acc_t<T>>(length, [p](int64_t k) {
      acc_t<T> v(p[k]), d = v - v;
      return d == d ? acc_t<T>(0) : acc_t<T>(1);
    }));
  }
};

void count_nonfinite_generic(const Tensor& x, Tensor& total) {
  if (x.numel() == 0) {
    fill(total, 0);
    return;
  }
  int64_t n = x.numel(), runs = ceil_div(n, kRun);
  Tensor partial = Tensor::empty({runs}, DType::kF64, x.device());
  dispatch_float(x.dtype(), "count_nonfinite", [&]<class T>() {
    for_each(runs, NonfiniteRuns<T>{x.data<T>(), partial.data<double>(), n}, n < kRun ? n : kRun);
  });
  sum_chunks<double, double>(partial.data<double>(), total.data<double>(), 1, runs, 1, 1.0, x.device());
}

SACCADE_REGISTER_KERNEL(sum_middle, &sum_middle_generic);
SACCADE_REGISTER_KERNEL(sum_to_shape, &sum_to_shape_generic);
SACCADE_REGISTER_KERNEL(count_nonfinite, &count_nonfinite_generic);

}  // namespace
}  // namespace saccade::kernels
