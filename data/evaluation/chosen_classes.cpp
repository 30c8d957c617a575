#include "data/evaluation/chosen_classes.h"

#include <fmt/format.h>

#include <unordered_set>

#include "data/formats/joining/class_choice.h"

namespace saccade {

std::vector<std::string> keep_classes(const std::vector<std::string>& names, GroundTruth& truth,
                                      std::vector<Detection>& detections) {
  if (names.empty()) return {};
  const size_t notes = truth.notes.size();
  choose_classes(truth, {.only = names});
  std::vector<std::string> lines(truth.notes.begin() + static_cast<std::ptrdiff_t>(notes), truth.notes.end());
  truth.notes.resize(notes);
  std::unordered_set<int64_t> ids;
  for (const Category& c : truth.categories) ids.insert(c.id);
  const size_t all = detections.size();
  if (const size_t left =
          std::erase_if(detections, [&](const Detection& d) { return !ids.contains(d.category_id); });
      left > 0)
    lines.push_back(fmt::format("{} of {} detections are of other classes and left out", left, all));
  return lines;
}

}  // namespace saccade
