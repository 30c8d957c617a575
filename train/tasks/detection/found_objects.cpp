#include "train/tasks/detection/found_objects.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/formats/listing.h"
#include "models/build.h"
#include "train/config/config.h"

namespace saccade {

std::vector<bool> shown_labels(const std::vector<std::string>& wanted, const LoadedModel& model,
                               const std::string& what) {
  const std::vector<std::string>& names = model.class_names;
  std::vector<bool> shown(names.size(), wanted.empty());
  for (const std::string& name : wanted) {
    bool found = false;
    for (size_t k = 0; k < names.size(); ++k)
      if (names[k] == name || std::to_string(model.category_ids.at(k)) == name) found = shown[k] = true;
    if (found) continue;
    std::vector<std::string> known;
    for (const std::string& k : names) known.push_back(printable(k));
    fail_input("{} has no class \"{}\", expected one of {}", what, printable(name), some_of(known, 20));
  }
  return shown;
}

std::optional<OwnThreshold> own_threshold(const Config& config) {
  const Args model = model_args(config);
  for (const std::string& part : model_types().find(config.model().type()).parts)
    if (const Args& own = model.get_section(part); own.has("score_threshold"))
      return OwnThreshold{fmt::format("model.{}.score_threshold", part), own.get_float("score_threshold")};
  return std::nullopt;
}

std::string note_on_nothing_found(const Config& config) {
  const auto own = own_threshold(config);
  if (!own || own->score == 0) return "";
  return fmt::format(
      "note: nothing was found in any image: no score exceeds {} ({}), which is usual early in training; "
      "--set {}=0 keeps the best ones anyway",
      own->field, own->score, own->field);
}

std::string object_json(const Instance& found, const LoadedModel& model) {
  const auto label = static_cast<size_t>(found.label);
  return fmt::format("\"category_id\": {}, \"bbox\": [{}, {}, {}, {}], \"score\": {}, \"category\": {}",
                     model.category_ids[label], found.box.x1, found.box.y1, found.box.width(),
                     found.box.height(), found.score, json_quote(model.class_names[label]));
}

std::string segmentation_json(const Instance& found) {
  if (!found.mask) return "";
  return fmt::format(", \"segmentation\": {{\"size\": [{}, {}], \"counts\": {}}}", found.mask->size().height,
                     found.mask->size().width, json_quote(found.mask->text()));
}

void add_sampling_points(const SamplingRecord& record, const Batch& batch, int64_t n, int64_t query,
                         int64_t label, std::vector<DrawnPoint>& points) {
  const Target& target = batch.targets[static_cast<size_t>(n)];
  double x_scale = static_cast<double>(batch.images.dim(2)) / static_cast<double>(target.width) *
                   static_cast<double>(target.original_width);
  double y_scale = static_cast<double>(batch.images.dim(1)) / static_cast<double>(target.height) *
                   static_cast<double>(target.original_height);
  std::vector<float> xy = record.locations.select(0, n).select(0, query).to_vector<float>();
  std::vector<float> weights = record.weights.select(0, n).select(0, query).to_vector<float>();
  float largest = *std::max_element(weights.begin(), weights.end());
  for (size_t i = 0; i < weights.size(); ++i)
    points.push_back(
        {xy[2 * i] * x_scale, xy[2 * i + 1] * y_scale, weights[i] / std::max(largest, 1e-9f), label});
}

}  // namespace saccade
