// libFuzzer: any bytes as annotations and as a list of detections (scripts/fuzz.sh).
#include <unistd.h>

#include <fstream>

#include "core/runtime/cpu/thread_team.h"
#include "core/tensor/error.h"
#include "data/evaluation/detections.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/coco/coco.h"

// In place of thread_team.cpp's, which takes the place of GCC's OpenMP and so is not for clang.
int saccade::thread_count() { return 1; }

static void check(const std::string& path) {
  saccade::DatasetReport report;
  saccade::GroundTruth left;
  const saccade::GroundTruth truth =
      saccade::read_coco(path, [&](const std::string& problem) { report.problems.add(problem); });
  saccade::check_ground_truth(truth, {.annotations = path, .images = ""}, 1, report, &left);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = "/tmp/saccade_fuzz_" + std::to_string(getpid()) + ".json";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  for (int reader = 0; reader < 2; ++reader) {
    try {
      if (reader == 0)
        check(path);
      else
        saccade::read_detections(path);
    } catch (const saccade::InputError&) {
    }
  }
  return 0;
}
