#include "data/formats/data_format.h"

#include <algorithm>

#include "data/formats/annotated_images.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/checks/image_check.h"
#include "data/formats/checks/units.h"
#include "data/formats/checks/unnamed_images.h"
#include "data/formats/splits.h"

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

void fail_at_the_first(const std::string& problem) { fail_input("{}", problem); }

GroundTruth read_lists(const DetectionFormat& format, const DataPaths& paths, const ProblemReport& report) {
  GroundTruth truth = format.read(paths, report);
  note_unnamed_images(truth, paths, format.read);
  take_known_categories(truth, paths.categories);
  if (paths.part == Part::kValidation) truth.notes.clear();  // they are of the training set, too
  return part_of(std::move(truth), paths);
}

void look_at_images(const ImageSource& images, const DataPaths& paths, std::vector<std::string>* notes) {
  if (paths.images.empty() || !paths.look_at_images) return;
  for (const std::string& note : check_image_files(images, paths))
    if (notes != nullptr) notes->push_back(note);
}

}  // namespace

std::shared_ptr<const DetectionDataset> open_detection_dataset(const DataPaths& paths, LabelScheme labels,
                                                               std::vector<std::string>* notes) {
  const DetectionFormat& format = detection_format(paths);
  std::shared_ptr<const DetectionDataset> dataset;
  if (format.open != nullptr)
    dataset = format.open(paths, labels);
  else
    dataset = std::make_shared<AnnotatedImages>(paths.annotations, paths.images,
                                                read_lists(format, paths, fail_at_the_first), labels);
  look_at_images(*dataset, paths, notes);
  if (notes != nullptr)
    for (const std::string& note : notes_on_boxes(dataset->ground_truth()))
      if (std::string line = fmt::format("note: {}: {}", dataset->name(), note);
          std::ranges::find(*notes, line) == notes->end())  // of two splits of one file
        notes->push_back(std::move(line));
  return dataset;
}

std::shared_ptr<const ClassificationDataset> open_classification_dataset(
    const DataPaths& paths, const std::vector<std::string>& classes, std::vector<std::string>* notes) {
  auto dataset = format_of(classification_formats(), paths, "folder").open(paths, classes);
  look_at_images(*dataset, paths, notes);
  return dataset;
}

DatasetReport check_detection_dataset(const DataPaths& paths, GroundTruth* left, int threads,
                                      GroundTruth* all) {
  DatasetReport report;
  try {
    const DetectionFormat& format = detection_format(paths);
    const ProblemReport add = [&](const std::string& problem) { report.problems.add(problem); };
    GroundTruth truth = format.read != nullptr ? read_lists(format, paths, add)
                                               : open_detection_dataset(paths)->ground_truth();
    check_ground_truth(truth, paths, threads, report, left);
    for (const std::string& note : truth.notes)
      if (std::ranges::find(report.remarks, note) == report.remarks.end()) report.remarks.push_back(note);
    if (all != nullptr) *all = std::move(truth);
  } catch (const InputError& e) {
    report.problems.add(e.what());
  }
  return report;
}

DatasetReport check_classification_dataset(const DataPaths& paths, std::vector<std::string>& classes,
                                           int threads) {
  DatasetReport report;
  try {
    DataPaths unseen = paths;
    unseen.look_at_images = false;
    const auto dataset = open_classification_dataset(unseen, classes);
    if (classes.empty()) classes = dataset->class_names();
    check_class_images(*dataset, paths, threads, report);
  } catch (const InputError& e) {
    report.problems.add(e.what());
  }
  return report;
}

GroundTruth read_ground_truth(const DataPaths& paths) {
  const DetectionFormat& format = detection_format(paths);
  if (format.read == nullptr) return format.open(paths, LabelScheme::kContiguous)->ground_truth();
  GroundTruth truth = read_lists(format, paths, fail_at_the_first);
  check_ids(truth, [&](const std::string& problem) { fail_input("{}: {}", paths.annotations, problem); });
  return truth;
}

}  // namespace saccade
