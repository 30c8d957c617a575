// Tests the set criterion on extreme batches: denormal and huge predictions, boxes without area and on the
// border, no objects, one class and a thousand, one query, more objects than queries. Losses and gradients
// are compared with PyTorch in f64 (scripts/golden/make_extreme_losses.py) where it has the loss; the others
// must be finite.
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "models/detection/criterion.h"
#include "models/detection/set_output.h"
#include "tests/autograd/golden.h"
#include "tests/models/schema_args.h"
#include "tests/objects.h"

namespace saccade {
namespace {

// Where an edge coincides with another or a size is 0, PyTorch chooses between two slopes in its own way, so
// there are no golden gradients.
struct ExtremeCase {
  const char* name;
  size_t images;
  bool gradients = true;
};
constexpr ExtremeCase kExtremes[] = {
    {"plain", 3},
    {"all_empty", 2},
    {"one_image", 1},
    {"one_query", 3},
    {"one_class", 2},
    {"thousand_classes", 2},
    {"more_objects_than_queries", 2},
    {"huge_logits", 2},
    {"logits_of_1e30_and_1e_30", 2},
    {"denormals", 2},
    {"predictions_without_area", 2, false},
    {"objects_without_area", 2, false},
    {"boxes_on_edges", 2, false},
};

std::vector<Target> read_targets(const Golden& golden, const ExtremeCase& c) {
  std::vector<Target> targets(c.images);
  for (size_t i = 0; i < c.images; ++i) {
    const std::string image = std::string(c.name) + "." + std::to_string(i);
    targets[i].image_id = static_cast<int64_t>(i);
    test::set_objects(targets[i], golden[image + ".labels"].to_vector<int64_t>(),
                      golden[image + ".boxes"].to_vector<float>());
  }
  return targets;
}

struct CriterionRun {
  double loss;
  Tensor logits, boxes;  // gradients
};

CriterionRun run_criterion(const Golden& golden, const ExtremeCase& c, const std::string& kind) {
  // These are the weights of criterion.py, which are the families' own.
  CriterionOptions options =
      CriterionOptions::read(test::schema_criterion(kind == "softmax" ? "detr" : "deformable_detr"));
  options.class_loss = kind;
  SetOutput output;
  output.layers.push_back({Var(golden[std::string(c.name) + ".logits"], true),
                           Var(golden[std::string(c.name) + ".boxes"], true)});
  const DetectionLoss loss = SetCriterion(options).forward(output, read_targets(golden, c));
  backward(loss.total);
  return {loss.total.value().item(), output.layers[0].logits.grad(), output.layers[0].boxes.grad()};
}

void expect_finite(const CriterionRun& run) {
  EXPECT_TRUE(std::isfinite(run.loss));
  for (const Tensor& gradient : {run.logits, run.boxes})
    for (double g : gradient.to_vector<double>()) ASSERT_TRUE(std::isfinite(g));
}

TEST(ExtremeLosses, EqualPyTorchs) {
  const Golden golden("losses/extreme.safetensors");
  for (const ExtremeCase& c : kExtremes) {
    for (const std::string kind : {"focal", "softmax"}) {
      if (kind == "softmax" && c.name == std::string("one_class"))
        continue;  // "no object" would be the only one
      SCOPED_TRACE(c.name + (" " + kind));
      const CriterionRun run = run_criterion(golden, c, kind);
      const std::string key = c.name + ("." + kind + ".");
      const double expected = golden[key + "loss"].item();
      EXPECT_NEAR(run.loss, expected, 1e-6 * expected);
      expect_finite(run);
      if (!c.gradients) continue;
      EXPECT_LT(error_of(run.logits, golden[key + "logits"]), 1e-5);
      EXPECT_LT(error_of(run.boxes, golden[key + "boxes"]), 1e-5);
    }
  }
}

TEST(ExtremeLosses, OfOtherClassLossesAreFinite) {
  const Golden golden("losses/extreme.safetensors");
  for (const ExtremeCase& c : kExtremes) {
    for (const std::string kind : {"varifocal", "mal", "ia_bce"}) {
      SCOPED_TRACE(c.name + (" " + kind));
      expect_finite(run_criterion(golden, c, kind));
    }
  }
}

}  // namespace
}  // namespace saccade
