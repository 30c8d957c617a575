#include <map>

#include "core/kernels/optimizer/optimizer.h"

namespace saccade::kernels {

UpdateKernel& update_kernel(const char* name) {
  static std::map<std::string, UpdateKernel> kernels;
  return kernels.try_emplace(name, name).first->second;
}

void ema_update(const Tensor& norm, std::span<const Tensor> averages, std::span<const Tensor> values,
                double weight) {
  SACCADE_CHECK(averages.size() == values.size(), "[ema_update] {} averages of {} values", averages.size(),
                values.size());
  std::vector<OptimizerItem> items;
  for (size_t i = 0; i < values.size(); ++i)
    items.push_back({.value = averages[i], .grad = values[i], .learning_rate = weight});
  update_kernel("ema")(norm, 0, items, {}, 0);
}

}  // namespace saccade::kernels
