#include "train/tasks/segmentation/label_map_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/images/draw.h"
#include "data/images/stored_pixels.h"
#include "data/pages/order.h"
#include "train/inference/picture_files.h"

namespace saccade {

LabelMapFiles::LabelMapFiles(const LoadedModel& model, const std::string& checkpoint) : model_(model) {
  const auto greatest = std::ranges::max(model.category_ids);
  if (std::ranges::min(model.category_ids) < 0 || greatest > 65535)
    fail_input("{}: some category ids are outside 0 to 65535, the values that a label map can have",
               checkpoint);
  if (greatest < 256) palette_ = label_palette(model.category_ids);
}

std::vector<uint8_t> LabelMapFiles::bytes(const LabelMap& labels) const {
  std::vector<uint16_t> values(labels.values.size());
  std::ranges::transform(labels.values, values.begin(),
                         [&](uint16_t label) { return static_cast<uint16_t>(model_.category_ids[label]); });
  return marked_as_drawn(encode_stored_pixels(labels.size, values, palette_));
}

std::vector<int64_t> LabelMapFiles::counts(const LabelMap& labels) const {
  std::vector<int64_t> counts(model_.class_names.size());
  for (uint16_t label : labels.values) ++counts[label];
  return counts;
}

std::string LabelMapFiles::classes_json(const std::vector<int64_t>& counts) const {
  std::string classes;
  for (size_t k : falling_order(counts.size(), [&](size_t k) { return counts[k]; }))
    if (counts[k] > 0)
      classes += fmt::format("{}{{\"category_id\": {}, \"category\": {}, \"pixels\": {}}}",
                             classes.empty() ? "" : ", ", model_.category_ids[k],
                             json_quote(model_.class_names[k]), counts[k]);
  return classes;
}

}  // namespace saccade
