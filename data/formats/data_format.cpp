#include "data/formats/data_format.h"

#include "data/formats/image_check.h"

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

void look_at_images(const ImageSource& images, const DataPaths& paths, std::vector<std::string>* notes) {
  if (paths.images.empty() || !paths.look_at_images) return;
  for (const std::string& note : check_image_files(images, paths))
    if (notes != nullptr) notes->push_back(note);
}

}  // namespace

std::shared_ptr<const DetectionDataset> open_detection_dataset(const DataPaths& paths, LabelScheme labels,
                                                               std::vector<std::string>* notes) {
  auto dataset = detection_format(paths).open(paths, labels);
  look_at_images(*dataset, paths, notes);
  return dataset;
}

std::shared_ptr<const ClassificationDataset> open_classification_dataset(
    const DataPaths& paths, const std::vector<std::string>& classes, std::vector<std::string>* notes) {
  auto dataset = format_of(classification_formats(), paths, "folder").open(paths, classes);
  look_at_images(*dataset, paths, notes);
  return dataset;
}

DatasetReport check_detection_dataset(const DataPaths& paths) {
  const DetectionFormat& format = detection_format(paths);
  if (format.check != nullptr) return format.check(paths);
  DatasetReport report;
  try {
    open_detection_dataset(paths);
  } catch (const InputError& e) {
    report.problems.add(e.what());
  }
  return report;
}

GroundTruth read_ground_truth(const std::string& annotations) {
  const DetectionFormat& format = detection_format({annotations, ""});
  if (format.read_ground_truth != nullptr) return format.read_ground_truth(annotations);
  return format.open({annotations, ""}, LabelScheme::kContiguous)->ground_truth();
}

}  // namespace saccade
