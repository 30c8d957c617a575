#include "core/tensor/error.h"
#include "data/formats/coco.h"
#include "data/formats/data_format.h"

namespace saccade {
namespace {

[[maybe_unused]] const bool coco_registered = detection_formats().add(
    {.name = "coco",
     .summary = "COCO instances: one json file",
     .recognises = nullptr,  // the default: annotations that no other format recognises
     .open = [](const DataPaths& paths, LabelScheme labels) -> std::shared_ptr<const DetectionDataset> {
       return std::make_shared<AnnotatedImages>(load_coco(paths.annotations, paths.images, labels));
     },
     .file = __FILE__,
     .check = [](const DataPaths& paths) { return check_coco(paths); },
     .read_ground_truth = read_coco_ground_truth});

ProblemReport fail_at_the_first(const std::string& path) {
  return [path](const std::string& problem) { fail_input("{}: {}", path, problem); };
}

}  // namespace

AnnotatedImages load_coco(const std::string& annotations, const std::string& images_dir, LabelScheme labels) {
  return {annotations, images_dir, read_coco(annotations, fail_at_the_first(annotations)), labels};
}

GroundTruth read_coco_ground_truth(const std::string& annotations) {
  GroundTruth truth = read_coco(annotations, fail_at_the_first(annotations));
  check_ids(truth, fail_at_the_first(annotations));
  return truth;
}

}  // namespace saccade
