#include "core/kernels/copy/copy.h"

#include "core/kernels/common/map_strided.h"
#include "core/kernels/copy/convert.h"
#include "core/kernels/copy/transpose.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

template <class To, class From>
struct CopyTile {
  static constexpr int64_t kTile = Transpose::kTile;
  Transpose t;
  const From* src;
  To* dst;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t c0 = i % t.col_tiles() * kTile, r0 = i / t.col_tiles() % t.row_tiles() * kTile,
            batch = i / t.col_tiles() / t.row_tiles();
    int64_t c1 = c0 + kTile < t.cols ? c0 + kTile : t.cols, r1 = r0 + kTile < t.rows ? r0 + kTile : t.rows;
    const int64_t source_step = t.source_step, target_step = t.target_step;
    To* d = dst + t.batch.row_offset(0, batch);
    const From* s = src + t.batch.row_offset(1, batch);
    for (int64_t r = r0; r < r1; ++r)
      for (int64_t c = c0; c < c1; ++c) d[r * target_step + c] = convert<To>(s[r + c * source_step]);
  }
};

void copy_strided(const Tensor& x, Tensor& y) {
  auto loop = loop_over(y, x);
  auto transpose = Transpose::find(loop);
  dispatch_one_pass(x.dtype(), y.dtype(), [&]<class To, class From>() {
    auto* from = static_cast<const From*>(x.raw());
    auto* to = static_cast<To*>(y.raw());
    if (transpose)
      for_each(transpose->tiles(), CopyTile<To, From>{*transpose, from, to},
               Transpose::kTile * Transpose::kTile);
    else
      map_strided(loop, Convert<To, From>{}, to, from);
  });
}

void copy_generic(const Tensor& x, Tensor& y) {
  SACCADE_CHECK(x.shape() == y.shape(), "[copy] shapes {} and {} differ", x.shape(), y.shape());
  if (x.numel() == 0) return;
  if (x.is_contiguous() && y.is_contiguous()) {
    dispatch_any(x.dtype(), "copy", [&]<class From>() {
      dispatch_any(y.dtype(), "copy", [&]<class To>() {
        map_each(x.numel(), Convert<To, From>{}, y.data<To>(), x.data<From>());
      });
    });
  } else if (copies_in_one_pass(x.dtype(), y.dtype())) {
    copy_strided(x, y);
  } else {
    Tensor from = x.contiguous(), to = Tensor::empty(y.shape(), y.dtype(), y.device());
    copy(from, to);
    copy(to, y);
  }
}

template <class Unit>
struct Constant {
  Unit value;
  SACCADE_HD Unit operator()() const { return value; }
};

void fill_generic(Tensor& y, double value) {
  if (y.numel() == 0) return;
  dispatch_any(y.dtype(), "fill", [&]<class T>() {
    using Unit = Bits<sizeof(T)>;
    map_strided(loop_over(y), Constant<Unit>{std::bit_cast<Unit>(convert<T>(value))},
                static_cast<Unit*>(y.raw()));
  });
}

struct StackScalars {
  static constexpr size_t kMaxScalars = 64;  // pointers that are passed with the launch
  const float* scalars[kMaxScalars];
  float* out;
  SACCADE_HD void operator()(int64_t i) const { out[i] = *scalars[i]; }
};

void stack_scalars_generic(Tensor& out, std::span<const Tensor> scalars) {
  SACCADE_CHECK(out.dtype() == DType::kF32 && out.is_contiguous() &&
                    out.numel() == static_cast<int64_t>(scalars.size()),
                "[stack_scalars] {} scalars into {} {}, expected f32 [{}]", scalars.size(), out.dtype(),
                out.shape(), scalars.size());
  for (size_t begin = 0; begin < scalars.size(); begin += StackScalars::kMaxScalars) {
    const size_t n = std::min(StackScalars::kMaxScalars, scalars.size() - begin);
    StackScalars f{};
    f.out = out.data<float>() + begin;
    for (size_t i = 0; i < n; ++i) {
      SACCADE_CHECK(scalars[begin + i].numel() == 1, "[stack_scalars] number {} has shape {}", begin + i,
                    scalars[begin + i].shape());
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

void join_generic(std::span<const Tensor> xs, int axis, Tensor& y) {
  int64_t at = 0;
  for (const Tensor& x : xs) {
    Tensor part = y.slice(axis, at, at + x.dim(axis));
    copy(x, part);
    at += x.dim(axis);
  }
}

void copy_parts_generic(Tensor& block, std::span<const Tensor> xs, std::span<const int64_t> begins) {
  for (size_t i = 0; i < xs.size(); ++i) {
    Tensor place = block.slice(0, begins[i], begins[i] + xs[i].numel()).reshape(xs[i].shape());
    copy(xs[i], place);
  }
}

SACCADE_REGISTER_KERNEL(copy, &copy_generic);
SACCADE_REGISTER_KERNEL(join, &join_generic);
SACCADE_REGISTER_KERNEL(fill, &fill_generic);
SACCADE_REGISTER_KERNEL(copy_into_zeros, &copy_into_zeros_generic);
SACCADE_REGISTER_KERNEL(copy_parts, &copy_parts_generic);
SACCADE_REGISTER_KERNEL(stack_scalars, &stack_scalars_generic);

}  // namespace
}  // namespace saccade::kernels
