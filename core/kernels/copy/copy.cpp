#include "core/kernels/copy/copy.h"

#include "core/kernels/common/strided.h"
#include "core/kernels/copy/convert.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

template <class To, class From>
struct Copy {
  StridedCalls<2> calls;  // 0: source, 1: destination
  const From* src;
  To* dst;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t ss = calls.step(0), ds = calls.step(1);
    calls.visit(i, [&](const int64_t* offsets, int64_t n) {
      const From* s = src + offsets[0];
      To* d = dst + offsets[1];
      if (ss == 1 && ds == 1) {
#pragma GCC ivdep
        for (int64_t k = 0; k < n; ++k) d[k] = convert<To>(s[k]);
      } else {
        for (int64_t k = 0; k < n; ++k) d[k * ds] = convert<To>(s[k * ss]);
      }
    });
  }
};

// The source runs fastest along another axis than the destination: copied in square tiles, so that both sides
// use whole cache lines. loop's last axis is contiguous in the destination, `fast` is the source's contiguous
// one.
template <class To, class From>
struct CopyTile {
  static constexpr int64_t kTile = 32;
  StridedLoop<2> loop;  // without the two tiled axes: the batch; its inner size is 1
  int64_t rows, cols;   // sizes of the source's and the destination's contiguous axis
  int64_t row_tiles, col_tiles, src_step, dst_step;  // src_step: along cols; dst_step: along rows
  const From* src;
  To* dst;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t c0 = i % col_tiles * kTile, r0 = i / col_tiles % row_tiles * kTile,
            batch = i / col_tiles / row_tiles;
    int64_t c1 = c0 + kTile < cols ? c0 + kTile : cols, r1 = r0 + kTile < rows ? r0 + kTile : rows;
    const From* s = src + loop.row_offset(0, batch);
    To* d = dst + loop.row_offset(1, batch);
    for (int64_t r = r0; r < r1; ++r)
      for (int64_t c = c0; c < c1; ++c) d[r * dst_step + c] = convert<To>(s[r + c * src_step]);
  }
};

// Finds the axis along which the source is contiguous; false when a tiled copy does not apply.
template <class To, class From>
bool copy_tiled(const StridedLoop<2>& loop, const From* src, To* dst) {
  int last = loop.rank - 1, fast = -1;
  for (int a = 0; a < last; ++a)
    if (loop.strides[0][a] == 1) fast = a;
  if (fast < 0 || loop.strides[1][last] != 1 || loop.sizes[fast] < 8 || loop.sizes[last] < 8) return false;
  using Tile = CopyTile<To, From>;
  Tile f{{}, loop.sizes[fast], loop.sizes[last], 0, 0, loop.strides[0][last], loop.strides[1][fast], src,
         dst};
  f.row_tiles = (f.rows + Tile::kTile - 1) / Tile::kTile;
  f.col_tiles = (f.cols + Tile::kTile - 1) / Tile::kTile;
  for (int a = 0; a < last; ++a) {
    if (a == fast) continue;
    f.loop.sizes[f.loop.rank] = loop.sizes[a];
    for (int t = 0; t < 2; ++t) f.loop.strides[t][f.loop.rank] = loop.strides[t][a];
    ++f.loop.rank;
  }
  f.loop.sizes[f.loop.rank++] = 1;
  for_each(f.loop.rows() * f.row_tiles * f.col_tiles, f, Tile::kTile * Tile::kTile);
  return true;
}

template <class To, class From>
void copy_typed(const Tensor& x, Tensor& y) {
  if (x.is_contiguous() && y.is_contiguous())
    return map_each(x.numel(), Convert<To, From>{}, y.data<To>(), x.data<From>());
  auto loop = StridedLoop<2>::make(x.shape(), {&x.strides(), &y.strides()});
  if (copy_tiled<To, From>(loop, x.data<From>(), y.data<To>())) return;
  StridedCalls<2> calls(loop);
  for_each(calls.count(), Copy<To, From>{calls, x.data<From>(), y.data<To>()}, calls.cost());
}

void copy_generic(const Tensor& x, Tensor& y) {
  SACCADE_CHECK(x.shape() == y.shape(), "[copy] shapes {} and {} differ", x.shape().to_string(),
                y.shape().to_string());
  if (x.numel() == 0) return;
  dispatch_any(x.dtype(), "copy", [&]<class From>() {
    dispatch_any(y.dtype(), "copy", [&]<class To>() { copy_typed<To, From>(x, y); });
  });
}

template <class T>
struct Constant {
  T value;
  SACCADE_HD T operator()() const { return value; }
};
template <class T>
struct Fill {
  StridedCalls<1> calls;
  T* dst;
  T value;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t ds = calls.step(0);
    T v = value;
    calls.visit(i, [&](const int64_t* offsets, int64_t n) {
      T* d = dst + offsets[0];
      if (ds == 1) {
        for (int64_t k = 0; k < n; ++k) d[k] = v;
      } else {
        for (int64_t k = 0; k < n; ++k) d[k * ds] = v;
      }
    });
  }
};

void fill_generic(Tensor& y, double value) {
  if (y.numel() == 0) return;
  dispatch_any(y.dtype(), "fill", [&]<class T>() {
    if (y.is_contiguous()) return map_each(y.numel(), Constant<T>{convert<T>(value)}, y.data<T>());
    StridedCalls<1> calls(StridedLoop<1>::make(y.shape(), {&y.strides()}));
    for_each(calls.count(), Fill<T>{calls, y.data<T>(), convert<T>(value)}, calls.cost());
  });
}

struct StackScalars {
  static constexpr size_t kMaxScalars = 64;  // pointers that travel with the launch
  const float* scalars[kMaxScalars];
  float* out;
  SACCADE_HD void operator()(int64_t i) const { out[i] = *scalars[i]; }
};

void stack_scalars_generic(Tensor& out, std::span<const Tensor> scalars) {
  SACCADE_CHECK(out.dtype() == DType::kF32 && out.is_contiguous() &&
                    out.numel() == static_cast<int64_t>(scalars.size()),
                "[stack_scalars] {} scalars into {} {}, expected f32 [{}]", scalars.size(),
                name_of(out.dtype()), out.shape().to_string(), scalars.size());
  for (size_t begin = 0; begin < scalars.size(); begin += StackScalars::kMaxScalars) {
    const size_t n = std::min(StackScalars::kMaxScalars, scalars.size() - begin);
    StackScalars f{};
    f.out = out.data<float>() + begin;
    for (size_t i = 0; i < n; ++i) {
      SACCADE_CHECK(scalars[begin + i].numel() == 1, "[stack_scalars] number {} has shape {}", begin + i,
                    scalars[begin + i].shape().to_string());
      f.scalars[i] = scalars[begin + i].data<float>();
    }
    for_each(static_cast<int64_t>(n), f);
  }
}

void copy_into_zeros_generic(const Tensor& x, int axis, int64_t begin, Tensor& y) {
  int64_t end = begin + x.dim(axis);
  Tensor before = y.slice(axis, 0, begin), inside = y.slice(axis, begin, end),
         after = y.slice(axis, end, y.dim(axis));
  fill(before, 0);
  copy(x, inside);
  fill(after, 0);
}

SACCADE_REGISTER_KERNEL(copy, &copy_generic);
SACCADE_REGISTER_KERNEL(fill, &fill_generic);
SACCADE_REGISTER_KERNEL(copy_into_zeros, &copy_into_zeros_generic);
SACCADE_REGISTER_KERNEL(stack_scalars, &stack_scalars_generic);

}  // namespace
}  // namespace saccade::kernels
