#include "core/kernels/matched_iou/matched_iou.h"

#include "core/runtime/launch.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
namespace {

template <class T>
struct MatchedIou {
  const T *boxes, *truth;
  const int64_t* rows;
  T* quality;
  SACCADE_HD void operator()(int64_t i) const {
    const T *a = boxes + 4 * i, *b = truth + 4 * i;
    T both = T(1);
    for (int axis = 0; axis < 2; ++axis) {
      T low = math::max(a[axis] - a[axis + 2] / 2, b[axis] - b[axis + 2] / 2);
      T high = math::min(a[axis] + a[axis + 2] / 2, b[axis] + b[axis + 2] / 2);
      both *= math::max(high - low, T(0));
    }
    T either = a[2] * a[3] + b[2] * b[3] - both;
    quality[rows[i]] = either > T(0) ? both / either : T(0);
  }
};

void matched_iou_generic(const Tensor& boxes, const Tensor& truth, const Tensor& rows, Tensor& quality) {
  dispatch_dtype<float, double>(boxes.dtype(), "matched_iou", [&]<class T>() {
    for_each(boxes.dim(0),
             MatchedIou<T>{boxes.data<T>(), truth.data<T>(), rows.data<int64_t>(), quality.data<T>()}, 40);
  });
}

struct PutLabels {
  const int64_t *classes, *rows;
  int64_t* labels;
  SACCADE_HD void operator()(int64_t i) const { labels[rows[i]] = classes[i]; }
};

void put_labels_generic(const Tensor& classes, const Tensor& rows, Tensor& labels) {
  for_each(rows.numel(), PutLabels{classes.data<int64_t>(), rows.data<int64_t>(), labels.data<int64_t>()});
}

SACCADE_REGISTER_KERNEL(matched_iou, &matched_iou_generic);
SACCADE_REGISTER_KERNEL(put_labels, &put_labels_generic);

}  // namespace
}  // namespace saccade::kernels
