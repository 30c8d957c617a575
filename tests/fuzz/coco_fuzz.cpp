// Fuzzing: any bytes as annotations and as a list of detections (scripts/fuzz.sh).
#include "data/evaluation/detections.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/coco/coco.h"
#include "tests/fuzz/target.h"

SACCADE_FUZZ(coco) {
  using namespace saccade::fuzz;
  const std::string path = write("list.json", {reinterpret_cast<const char*>(data), size});
  attempt([&] {
    saccade::DatasetReport report;
    saccade::GroundTruth left;
    const saccade::GroundTruth truth =
        saccade::read_coco(path, [&](const std::string& problem) { report.problems.add(problem); });
    saccade::check_ground_truth(truth, {.annotations = path, .images = ""}, 1, report, &left);
  });
  attempt([&] { saccade::read_detections(path); });
}
