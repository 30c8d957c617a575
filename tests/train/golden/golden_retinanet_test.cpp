// Compares RetinaNet with torchvision's (scripts/golden/retinanet.py): with the same weights, detections in
// photographs have the same boxes to 0.01 pixel and scores to 1e-4. Also compares the losses and gradients of
// a step of three images of different sizes by mmdetection's rules.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <regex>

#include "autograd/engine.h"
#include "core/formats/safetensors.h"
#include "data/evaluation/detections.h"
#include "models/build.h"
#include "models/weights/weight_names.h"
#include "tests/test_folder.h"
#include "tests/train/golden/near_golden.h"
#include "tests/train/golden/nearest_detection.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"

namespace saccade {
namespace {

const std::string kRetinaNetFolder = SACCADE_SOURCE_DIR "/tests/golden/retinanet/";
const std::string kPhotographs = SACCADE_SOURCE_DIR "/../shared/data/coco_cc_mini/images";

TEST(GoldenRetinaNet, DetectsWhatTorchvisionDetects) {
  if (!std::filesystem::is_directory(kPhotographs)) GTEST_SKIP() << kPhotographs << " is not there";
  TestFolder folder;
  const std::string checkpoint = folder / "x.safetensors", found = folder / "found.json";
  ASSERT_EQ(run_convert({.input = kRetinaNetFolder + "weights.pth", .output = checkpoint}), 0);
  ASSERT_EQ(run_eval({.checkpoint = checkpoint,
                      .annotations = SACCADE_SOURCE_DIR "/tests/golden/eval/annotations.json",
                      .images = kPhotographs,
                      .detections = found,
                      .batch_size = 1}),
            0);
  std::vector<Detection> ours = read_detections(found),
                         expected = read_detections(kRetinaNetFolder + "detections.json");
  ASSERT_EQ(ours.size(), expected.size());
  double box = 0, score = 0;
  for (const Detection& e : expected) {
    const std::optional<Detection> nearest = take_nearest(ours, e);
    ASSERT_TRUE(nearest) << "image " << e.image_id << ", category " << e.category_id;
    box = std::max(box, box_difference(*nearest, e));
    score = std::max(score, std::abs(nearest->score - e.score));
  }
  EXPECT_LE(box, 0.01);
  EXPECT_LE(score, 1e-4);
  fmt::print("boxes differ by at most {:.1e} pixels, scores by {:.1e}\n", box, score);
}

// Reads files of torchvision before 0.13, and mmdetection's, whose names are ours.
TEST(GoldenRetinaNet, ReadsAllNames) {
  TestFolder folder;
  const std::string first = folder / "first.safetensors";
  ASSERT_EQ(run_convert({.input = kRetinaNetFolder + "weights.pth", .output = first}), 0);
  const auto file = open_weights(kRetinaNetFolder + "weights.pth");
  const std::regex fpn("(inner_blocks|layer_blocks)\\.(\\d)\\.0\\."), tower("_head\\.conv\\.(\\d)\\.0\\.");
  NamedValues old, ours;
  for (const WeightEntry& e : file->entries()) {
    std::string name = std::regex_replace(e.name, fpn, "$1.$2.");
    if (std::smatch found; std::regex_search(name, found, tower))
      name = std::regex_replace(name, tower, fmt::format("_head.conv.{}.", 2 * std::stoi(found[1])));
    old.emplace_back(name, file->read(e.name));
  }
  for (const NamedWeight& w : official_weights(*file).tensors)
    ours.emplace_back(w.name, read_weight(*file, w));
  write_safetensors(folder / "old.safetensors", old, {});
  ASSERT_EQ(run_convert({.input = folder / "old.safetensors", .output = folder / "second.safetensors"}), 0);
  EXPECT_EQ(read_bytes(first), read_bytes(folder / "second.safetensors"));
  write_safetensors(folder / "ours.safetensors", ours, {});
  ASSERT_EQ(run_convert({.input = folder / "ours.safetensors", .output = folder / "third.safetensors"}), 0);
  const Config config =
      parse_config(read_checkpoint_info(SafetensorsReader(folder / "third.safetensors")).config, "third");
  EXPECT_EQ(config.model().type(), "retinanet");
  EXPECT_EQ(config.model().num_classes(), 91);
  EXPECT_EQ(config.model().retinanet().channels(), 8);
  EXPECT_EQ(config.model().retinanet().conventions(), "mmdetection");
  EXPECT_EQ(config.model().retinanet().coarse_levels(), "pyramid");
}

// The parameter names the convention of the losses. The weights and the gradients' names are torchvision's.
class GoldenRetinaNetLoss : public testing::TestWithParam<const char*> {};

TEST_P(GoldenRetinaNetLoss, IsThatOfTheRules) {
  TestFolder folder;
  const std::string checkpoint = folder / "x.safetensors", conventions = GetParam();
  ASSERT_EQ(
      run_convert({.input = kRetinaNetFolder + "weights.pth",
                   .output = checkpoint,
                   .set = {"model.retinanet.conventions=" + conventions, "model.backbone.frozen_stages=0"}}),
      0);
  const LoadedModel loaded = load_trained_model(checkpoint, Device::kCpu);
  Detector& model = loaded.as<Detector>();
  const SafetensorsReader golden(kRetinaNetFolder + "step.safetensors");
  const int64_t H = 64, W = 96;
  Tensor images = Tensor::zeros({3, H, W, 3});
  DetectorInput input;
  std::vector<Target> targets;
  for (int64_t n = 0; n < 3; ++n) {
    const std::string name = std::to_string(n);
    const Tensor image = golden.read(name + ".image");
    Target target{.image_id = n, .height = image.dim(0), .width = image.dim(1)};
    target.frame = {target.height, target.width};
    images.select(0, n).slice(0, 0, target.height).slice(1, 0, target.width).copy_from(image);
    const std::vector<int64_t> labels = golden.read(name + ".labels").to_vector<int64_t>();
    const std::vector<float> boxes = golden.read(name + ".boxes").to_vector<float>();
    for (size_t i = 0; i < labels.size(); ++i)
      target.instances.push_back(
          {.label = labels[i], .box = {boxes[4 * i], boxes[4 * i + 1], boxes[4 * i + 2], boxes[4 * i + 3]}});
    EXPECT_EQ(static_cast<double>(model.count(target)),
              golden.read(conventions + ".counts").to_vector<double>().at(static_cast<size_t>(n)));
    input.sizes.push_back(target.frame);
    targets.push_back(std::move(target));
  }
  input.images = Var(images);
  const DetectionLoss loss = model.loss(*model.forward(input), targets);
  for (const auto& [name, value] : loss.parts)
    expect_near_golden(value, golden.read(conventions + "." + name), name);
  if (conventions != "mmdetection") return;
  backward(loss.total);
  size_t compared = 0;
  const OfficialWeights names = official_weights(*open_weights(kRetinaNetFolder + "weights.pth"));
  for (const NamedTensor& t : model.parameters()) {
    const NamedWeight* theirs = names.find(t.name);
    ASSERT_NE(theirs, nullptr) << t.name;
    if (!t.var.requires_grad()) continue;
    const Tensor expected = golden.read("grad." + theirs->parts.at(0));
    double worst = 0;
    const auto a = t.var.grad().to_vector<double>(), b = expected.to_vector<double>();
    for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
    EXPECT_LE(worst, 1e-3 * largest_in(expected) + 1e-6) << t.name;
    ++compared;
  }
  EXPECT_GT(compared, 30U);
}

INSTANTIATE_TEST_SUITE_P(Conventions, GoldenRetinaNetLoss, testing::Values("torchvision", "mmdetection"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace saccade
