#include "core/kernels/top_k/top_k.h"

#include "core/kernels/common/lane_reduce.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

// An element's place is the number of elements before it. This has no order of work, so it is the reference.
struct PlaceElement {
  const float* scores;
  int64_t* indices;
  int64_t columns, picks;
  SACCADE_HD void operator()(int64_t i) const {
    const int64_t row = i / columns, own = i % columns;
    const float* s = scores + row * columns;
    const float score = s[own];
    int64_t place = 0;
    for (int64_t k = 0; k < columns; ++k) {
      // A NaN is smaller than every number and equal to every NaN.
      const bool larger = score == score ? s[k] > score : s[k] == s[k];
      const bool equal = score == score ? s[k] == score : s[k] != s[k];
      place += larger || (equal && k < own);
    }
    if (place < picks) indices[row * picks + place] = own;
  }
};

void top_k_generic(const Tensor& scores, Tensor& indices) {
  for_each(scores.numel(),
           PlaceElement{scores.data<float>(), indices.data<int64_t>(), scores.dim(1), indices.dim(1)},
           scores.dim(1));
}

template <class T>
struct RowMax {
  const T* x;
  acc_t<T>* y;
  int64_t columns;
  SACCADE_HD void operator()(int64_t row) const {
    const T* p = x + row * columns;
    y[row] = lane_max<acc_t<T>, 16>(columns, [p](int64_t i) { return acc_t<T>(p[i]); });
  }
};

void row_max_generic(const Tensor& x, Tensor& y) {
  dispatch_float(x.dtype(), "row_max", [&]<class T>() {
    for_each(y.numel(), RowMax<T>{x.data<T>(), y.data<acc_t<T>>(), x.dim(-1)}, x.dim(-1));
  });
}

SACCADE_REGISTER_KERNEL(top_k, &top_k_generic);
SACCADE_REGISTER_KERNEL(row_max, &row_max_generic);

}  // namespace
}  // namespace saccade::kernels
