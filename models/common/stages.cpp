#include "models/common/stages.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/tensor/error.h"

namespace saccade {

std::vector<int64_t> read_outputs(const Args& backbone, const std::vector<int64_t>& fallback,
                                  int64_t stages) {
  std::vector<int64_t> outputs = backbone.get_ints("outputs", {});
  if (outputs.empty()) outputs = fallback;
  if (outputs.empty()) outputs = {stages};
  if (!std::ranges::is_sorted(outputs, std::ranges::less_equal()) || outputs.front() < 1 ||
      outputs.back() > stages)
    fail_input("{}.outputs: [{}], expected ascending stages from 1 to {}", backbone.path(),
               fmt::join(outputs, ", "), stages);
  return outputs;
}

std::vector<int64_t> read_per_stage(const Args& backbone, const std::string& key,
                                    std::vector<int64_t> fallback, int64_t stages, int64_t high) {
  fallback.resize(static_cast<size_t>(std::min(std::ssize(fallback), static_cast<ptrdiff_t>(stages))));
  std::vector<int64_t> v = backbone.get_ints(key, fallback, 1, high);
  if (std::ssize(v) != stages)
    fail_input("{}.{}: [{}], expected {} numbers, one per stage", backbone.path(), key,
               shortened(fmt::format("{}", fmt::join(v, ", "))), stages);
  return v;
}

std::vector<std::vector<double>> drop_path_rates(const std::vector<int64_t>& depths, double rate) {
  int64_t last = std::accumulate(depths.begin(), depths.end(), int64_t{0}) - 1, i = 0;
  std::vector<std::vector<double>> rates;
  for (int64_t depth : depths) {
    auto& stage = rates.emplace_back();
    for (int64_t b = 0; b < depth; ++b, ++i)
      stage.push_back(i == 0 ? 0 : rate * static_cast<double>(i) / static_cast<double>(last));
  }
  return rates;
}

}  // namespace saccade
