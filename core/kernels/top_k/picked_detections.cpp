#include "core/kernels/top_k/picked_detections.h"

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

struct PickDetection {
  const float *logits, *boxes;
  const int64_t* indices;
  float* rows;
  int64_t queries, columns, classes, picks;
  // Returns 1 + the index of the first non-finite number in part number `part` of `picks`, or 0.
  SACCADE_HD int64_t first_bad(const float* values, int64_t count, int64_t part) const {
    const int64_t each = (count + picks - 1) / picks;
    for (int64_t i = part * each; i < (part + 1) * each && i < count; ++i)
      if (!(values[i] - values[i] == 0)) return i + 1;
    return 0;
  }
  SACCADE_HD void operator()(int64_t i) const {
    const int64_t image = i / picks, part = i % picks;
    const float *of_image = logits + image * queries * columns, *places = boxes + image * queries * 4;
    const int64_t query = indices[i] / classes, label = indices[i] % classes;
    float* row = rows + i * kPickedNumbers;
    row[0] = of_image[query * columns + label];
    for (int64_t k = 0; k < 4; ++k) row[1 + k] = places[query * 4 + k];
    row[5] = static_cast<float>(query);
    row[6] = static_cast<float>(label);
    const int64_t logit = first_bad(of_image, queries * columns, part);
    row[7] = static_cast<float>(logit > 0 ? logit : -first_bad(places, queries * 4, part));
  }
};

void pick_detections_generic(const Tensor& logits, const Tensor& boxes, const Tensor& indices,
                             int64_t classes, Tensor& rows) {
  const int64_t Q = logits.dim(1), K = logits.dim(2), P = indices.dim(1);
  for_each(indices.numel(),
           PickDetection{logits.data<float>(), boxes.data<float>(), indices.data<int64_t>(),
                         rows.data<float>(), Q, K, classes, P},
           Q * (K + 4) / P + 16);
}

SACCADE_REGISTER_KERNEL(pick_detections, &pick_detections_generic);

}  // namespace
}  // namespace saccade::kernels
