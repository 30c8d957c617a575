#include "core/kernels/copy.h"

#include "core/kernels/strided.h"
#include "core/launch.h"

namespace saccade::kernels {
namespace {

template <class To, class From>
SACCADE_HD To convert(From v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<acc_t<From>>(v) != 0;
  } else if constexpr (std::is_same_v<From, bf16>) {
    return static_cast<To>(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, bf16> && std::is_integral_v<From>) {
    return bf16(static_cast<float>(v));
  } else {
    return static_cast<To>(v);
  }
}

template <class To, class From>
struct CopyRow {
  StridedLoop<2> loop;  // 0: source, 1: destination
  const From* src;
  To* dst;
  SACCADE_HD void operator()(int64_t row) const {
    const From* s = src + loop.row_offset(0, row);
    To* d = dst + loop.row_offset(1, row);
    int64_t n = loop.inner(), ss = loop.strides[0][loop.rank - 1], ds = loop.strides[1][loop.rank - 1];
    if (ss == 1 && ds == 1) {
      for (int64_t i = 0; i < n; ++i) d[i] = convert<To>(s[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) d[i * ds] = convert<To>(s[i * ss]);
    }
  }
};

// One long row is cut into pieces so that every thread has work.
constexpr int64_t kPiece = 16384;

template <class To, class From>
void copy_typed(const Tensor& x, Tensor& y) {
  CopyRow<To, From> f{StridedLoop<2>::make(x.shape(), {&x.strides(), &y.strides()}), x.data<From>(), y.data<To>()};
  auto& loop = f.loop;
  if (loop.rank < Shape::kMaxRank && loop.inner() > kPiece && loop.inner() % kPiece == 0) {
    int last = loop.rank++;
    loop.sizes[last] = kPiece;
    loop.sizes[last - 1] /= kPiece;
    for (auto& s : loop.strides) {
      s[last] = s[last - 1];
      s[last - 1] *= kPiece;
    }
  }
  for_each(loop.rows(), f, loop.inner());
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
struct FillRow {
  StridedLoop<1> loop;
  T* dst;
  T value;
  SACCADE_HD void operator()(int64_t row) const {
    T* d = dst + loop.row_offset(0, row);
    int64_t n = loop.inner(), ds = loop.strides[0][loop.rank - 1];
    for (int64_t i = 0; i < n; ++i) d[i * ds] = value;
  }
};

void fill_generic(Tensor& y, double value) {
  if (y.numel() == 0) return;
  dispatch_any(y.dtype(), "fill", [&]<class T>() {
    FillRow<T> f{StridedLoop<1>::make(y.shape(), {&y.strides()}), y.data<T>(), convert<T>(value)};
    for_each(f.loop.rows(), f, f.loop.inner());
  });
}

SACCADE_REGISTER_KERNEL(copy, &copy_generic);
SACCADE_REGISTER_KERNEL(fill, &fill_generic);

}  // namespace
}  // namespace saccade::kernels
