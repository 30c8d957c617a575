// Compares RF-DETR, with and without masks, and LW-DETR with transformers' forward pass and with losses
// written from the papers; scripts/golden/published/transformers_rf_detr.py makes the files. RF-DETR's
// weights have the official names, its gradients those of Hugging Face's program.
#include "tests/train/checkpoints/transformers_golden.h"

namespace saccade {
namespace {

constexpr uint64_t kPointsKey = 77;  // of the points at which masks are compared

class WindowedDetrs : public testing::TestWithParam<const char*> {
 protected:
  std::string file(const std::string& name) const {
    return fmt::format("{}/tests/golden/{}/{}.safetensors", SACCADE_SOURCE_DIR, GetParam(), name);
  }
  std::shared_ptr<Detector> load() const {
    return load_detector(file("model"), [](Config& config) { EXPECT_EQ(config.model().type(), GetParam()); });
  }
};

TEST_P(WindowedDetrs, LogitsAndBoxesAreTransformers) {
  auto model = load();
  ASSERT_NE(model, nullptr);
  expect_results(*model, file("golden"));
}

TEST_P(WindowedDetrs, LossesAndGradientsAreThoseOfThePapers) {
  auto model = load();
  model->set_training(true);
  SafetensorsReader golden(file("training"));
  GoldenBatch batch = read_batch(golden, 0);
  ExecutionScope scope;
  execution().rng_key = kPointsKey;
  DetectionLoss loss = model->loss(*model->forward({.images = Var(batch.images)}), batch.targets);
  size_t parts = 0;
  for (const auto& entry : golden.entries()) {
    const std::string prefix = "loss.";
    if (!entry.name.starts_with(prefix) || entry.name == "loss.total") continue;
    expect_loss_part(loss, entry.name.substr(prefix.size()), golden.read(entry.name));
    ++parts;
  }
  EXPECT_EQ(loss.parts.size(), parts);
  const double total = golden.read("loss.total").to_vector<float>()[0];
  EXPECT_NEAR(loss.total.value().item(), total, 1e-4 * total);
  backward(loss.total);
  expect_gradients(*model, file("gradients"));
}

TEST_P(WindowedDetrs, FollowThePapersForThirtySteps) {
  auto model = load();
  model->set_training(true);
  SafetensorsReader golden(file("training"));
  ExecutionScope scope;
  execution().rng_key = kPointsKey;
  const std::vector<GoldenBatch> batches{read_batch(golden, 0), read_batch(golden, 1)};
  expect_curve(*model, batches, golden.read("curve").to_vector<float>(), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Families, WindowedDetrs, testing::Values("rf_detr", "rf_detr_seg", "lw_detr"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace saccade
