// From a .pth file to detections: convert and eval on photographs give what the official PyTorch pipeline
// with Pillow gives (scripts/golden/eval_pipeline.py, which compares on whole data sets): boxes to 0.01
// pixel, scores to 1e-4.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "data/evaluation/detections.h"
#include "data/images/image.h"
#include "tests/test_folder.h"
#include "tests/train/golden/nearest_detection.h"
#include "train/checkpoints/checkpoint.h"
#include "train/commands/commands.h"

namespace saccade {
namespace {

const std::string kGolden = SACCADE_SOURCE_DIR "/tests/golden/eval/";
const std::string kImages = SACCADE_SOURCE_DIR "/../shared/data/coco_cc_mini/images";

class Eval : public testing::TestWithParam<const char*> {};

TEST_P(Eval, DetectsWhatPyTorchDetects) {
  if (!std::filesystem::is_directory(kImages)) GTEST_SKIP() << kImages << " is not there";
  TestFolder folder;
  const std::string kind = GetParam(), checkpoint = folder / "x.safetensors";
  // Only the file is given: 91 outputs are COCO's category ids.
  ASSERT_EQ(run_convert({.input = kGolden + kind + ".pth", .output = checkpoint}), 0);
  CheckpointInfo info = read_checkpoint_info(SafetensorsReader(checkpoint));
  ASSERT_EQ(info.class_names.size(), 91u);
  EXPECT_EQ(info.class_names[17], "cat");
  EXPECT_EQ(info.class_names[12], "N/A");
  EXPECT_EQ(info.category_ids[17], 17);
  for (int64_t batch : {1, 3}) {
    const std::string found = folder / "found.json";
    ASSERT_EQ(run_eval({.checkpoint = checkpoint,
                        .annotations = kGolden + "annotations.json",
                        .images = kImages,
                        .detections = found,
                        .batch_size = batch}),
              0);
    std::vector<Detection> ours = read_detections(found),
                           expected = read_detections(kGolden + kind + fmt::format(".batch{}.json", batch));
    ASSERT_EQ(ours.size(), expected.size());
    double box = 0, score = 0;
    for (const Detection& e : expected) {
      const std::optional<Detection> nearest = take_nearest(ours, e);
      ASSERT_TRUE(nearest) << "image " << e.image_id << ", category " << e.category_id;
      box = std::max(box, box_difference(*nearest, e));
      score = std::max(score, std::abs(nearest->score - e.score));
    }
    EXPECT_LE(box, 0.01) << "batch size " << batch;
    EXPECT_LE(score, 1e-4) << "batch size " << batch;
    fmt::print("{}, batch size {}: boxes differ by at most {:.1e} pixels, scores by {:.1e}\n", kind, batch,
               box, score);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Eval, testing::Values("detr", "deformable_detr"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace saccade
