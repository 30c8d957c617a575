// Compares Mask R-CNN with torchvision's (scripts/golden/mask_rcnn.py): with the same weights, detections in
// photographs have the same boxes to 0.01 pixel, scores to 1e-4, and masks to an IoU of 0.999.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "data/evaluation/detections.h"
#include "tests/test_folder.h"
#include "tests/train/golden/nearest_detection.h"
#include "train/commands/commands.h"

namespace saccade {
namespace {

const std::string kMaskRcnnFolder = SACCADE_SOURCE_DIR "/tests/golden/mask_rcnn/";
const std::string kMaskRcnnPhotographs = SACCADE_SOURCE_DIR "/../shared/data/coco_cc_mini/images";

TEST(GoldenMaskRcnn, DetectsWhatTorchvisionDetects) {
  if (!std::filesystem::is_directory(kMaskRcnnPhotographs))
    GTEST_SKIP() << kMaskRcnnPhotographs << " is not there";
  TestFolder folder;
  const std::string checkpoint = folder / "x.safetensors", found = folder / "found.json";
  ASSERT_EQ(run_convert({.input = kMaskRcnnFolder + "weights.pth",
                         .output = checkpoint,
                         .set = {"model.rcnn.detections=30"}}),
            0);
  ASSERT_EQ(run_eval({.checkpoint = checkpoint,
                      .annotations = SACCADE_SOURCE_DIR "/tests/golden/eval/annotations.json",
                      .images = kMaskRcnnPhotographs,
                      .detections = found,
                      .batch_size = 1}),
            0);
  std::vector<Detection> ours = read_detections(found, nullptr, nullptr, true),
                         expected =
                             read_detections(kMaskRcnnFolder + "detections.json", nullptr, nullptr, true);
  ASSERT_EQ(ours.size(), expected.size());
  double box = 0, score = 0, overlap = 1;
  for (const Detection& e : expected) {
    const std::optional<Detection> nearest = take_nearest(ours, e);
    ASSERT_TRUE(nearest) << "image " << e.image_id << ", category " << e.category_id;
    ASSERT_TRUE(nearest->mask && e.mask);
    box = std::max(box, box_difference(*nearest, e));
    score = std::max(score, std::abs(nearest->score - e.score));
    overlap = std::min(overlap, iou(*nearest->mask, *e.mask));
  }
  EXPECT_LE(box, 0.01);
  EXPECT_LE(score, 1e-4);
  EXPECT_GE(overlap, 0.999);
  fmt::print("boxes differ by at most {:.1e} pixels, scores by {:.1e}, IoU of masks at least {:.5f}\n", box,
             score, overlap);
}

}  // namespace
}  // namespace saccade
