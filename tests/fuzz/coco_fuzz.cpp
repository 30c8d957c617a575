// Fuzzing: any bytes as annotations and as a list of detections (scripts/fuzz.sh).
#include "data/evaluation/detections.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/checks/mask_check.h"
#include "data/formats/coco/coco.h"
#include "data/formats/coco/segmentation_json.h"
#include "tests/fuzz/target.h"

SACCADE_FUZZ(coco) {
  using namespace saccade::fuzz;
  const std::string path = write("list.json", {reinterpret_cast<const char*>(data), size});
  attempt([&] {
    saccade::DatasetReport report;
    saccade::GroundTruth left;
    const saccade::DataPaths paths{
        .annotations = path, .images = "", .wants = {.boxes = true, .masks = true}};
    const saccade::ProblemReport add = [&](const std::string& problem) { report.problems.add(problem); };
    saccade::GroundTruth truth = saccade::read_coco(paths, add);
    saccade::check_masks(truth, path, add);
    saccade::check_ground_truth(truth, paths, 1, report, &left);
    for (const saccade::Annotation& a : left.annotations)
      if (a.segmentation) {
        saccade::Mask::from_polygons({48, 64}, a.segmentation->polygons);
        saccade::segmentation_json(*a.segmentation);
      }
  });
  attempt([&] { saccade::read_detections(path); });
}
