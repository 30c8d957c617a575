#include "data/formats/data_format.h"

namespace saccade {
namespace {

template <class Format>
const Format& format_of(const Registry<Format>& formats, const DataPaths& paths, const char* otherwise) {
  if (!paths.format.empty()) return formats.find(paths.format);
  const Format* found = nullptr;
  for (const auto& [name, format] : formats.all()) {
    if (format.recognises == nullptr || !format.recognises(paths)) continue;
    if (found != nullptr)
      fail_input("{}: may be of the format {} or {}; the field \"format\" beside it says which",
                 paths.annotations.empty() ? paths.images : paths.annotations, found->name, name);
    found = &format;
  }
  return found != nullptr ? *found : formats.find(otherwise);
}

const DetectionFormat& detection_format(const DataPaths& paths) {
  return format_of(detection_formats(), paths, "coco");
}

}  // namespace

std::shared_ptr<const DetectionDataset> open_detection_dataset(const DataPaths& paths, LabelScheme labels) {
  return detection_format(paths).open(paths, labels);
}

std::shared_ptr<const ClassificationDataset> open_classification_dataset(
    const DataPaths& paths, const std::vector<std::string>& classes) {
  return format_of(classification_formats(), paths, "folder").open(paths, classes);
}

std::vector<std::string> check_detection_dataset(const DataPaths& paths) {
  const DetectionFormat& format = detection_format(paths);
  if (format.check != nullptr) return format.check(paths);
  try {
    format.open(paths, LabelScheme::kContiguous);
    return {};
  } catch (const InputError& e) {
    return {e.what()};
  }
}

GroundTruth read_ground_truth(const std::string& annotations) {
  const DetectionFormat& format = detection_format({annotations, ""});
  if (format.read_ground_truth != nullptr) return format.read_ground_truth(annotations);
  return format.open({annotations, ""}, LabelScheme::kContiguous)->ground_truth();
}

}  // namespace saccade
