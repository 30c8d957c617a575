#include "train/tasks/classification/best_classes.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/formats/json.h"

namespace saccade {

std::span<const Instance> best_classes(const std::vector<Instance>& classes) {
  constexpr size_t kShownClasses = 5;
  return std::span(classes).first(std::min(classes.size(), kShownClasses));
}

std::string best_classes_json(const std::vector<Instance>& classes, const LoadedModel& model) {
  std::string list;
  for (const Instance& c : best_classes(classes))
    list += fmt::format("{}{{\"class\": {}, \"score\": {}}}", list.empty() ? "" : ", ",
                        json_quote(model.class_names.at(static_cast<size_t>(c.label))), c.score);
  return list;
}

}  // namespace saccade
