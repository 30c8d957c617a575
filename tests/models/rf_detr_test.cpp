// Tests properties of RF-DETR's groups of queries, its masks and their losses. Whole models:
// tests/train/checkpoints/rf_detr_transformers_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/engine.h"
#include "autograd/scope.h"
#include "core/tensor/philox.h"
#include "models/detection/loss_term.h"
#include "models/detection/masks/true_masks.h"
#include "models/rf_detr/mask_head.h"
#include "tests/models/schema_args.h"
#include "tests/objects.h"

namespace saccade {
namespace {

Tensor random_numbers(const Shape& shape, uint64_t key, double size = 1) {
  Tensor t = Tensor::empty(shape);
  Rng rng(key);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(-size, size));
  return t;
}

std::shared_ptr<Detector> small_rf_detr(const std::string& type) {
  Args model = test::schema_args(type);
  Args &backbone = model.section("backbone"), &t = model.section("transformer");
  for (auto [key, value] :
       {std::pair{"image_size", 32}, {"patch", 8}, {"dim", 16}, {"depth", 2}, {"heads", 2}})
    backbone.set(key, int64_t{value});
  for (auto [key, value] : {std::pair{"hidden_dim", 16},
                            {"heads", 2},
                            {"decoder_layers", 2},
                            {"ffn_dim", 16},
                            {"queries", 5},
                            {"extra_query_groups", 2}})
    t.set(key, int64_t{value});
  model.section("lw_detr").set("cross_heads", int64_t{4});
  model.section("lw_detr").set("projector_blocks", int64_t{1});
  auto built = test::build_detector(model, 3);
  built->initialize(7);
  return built;
}

// In training the groups are independent; in evaluation there is only the first, with the same predictions.
TEST(RfDetr, GroupsDoNotSeeEachOther) {
  NoGrad no_grad;
  auto model = small_rf_detr("rf_detr");
  model->set_training(true);
  const Var images(random_numbers({2, 32, 48, 3}, 1));
  auto of_first = [&](bool training) {
    model->set_training(training);
    const SetOutput output = set_output(*model->forward({.images = images}));
    EXPECT_EQ(output.query_groups, training ? 3 : 1);
    EXPECT_EQ(output.layers.back().logits.dim(1), training ? 15 : 5);
    EXPECT_EQ(output.encoder.logits.dim(1), training ? 15 : 5);
    std::vector<float> all;
    for (const Var& x : {output.layers.back().logits, output.layers.back().boxes, output.encoder.boxes}) {
      const auto values = slice(x, 1, 0, 5).value().contiguous().to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const auto before = of_first(true);
  for (const NamedTensor& t : model->named_tensors())
    if (t.name == "query_feat.weight" || t.name == "refpoint_embed.weight") {
      Var v = t.var;
      v.value().slice(0, 5, 15).fill(0.25);
    }
  EXPECT_EQ(before, of_first(true));
  const auto evaluated = of_first(false);
  ASSERT_EQ(before.size(), evaluated.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], evaluated[i], 1e-5) << i;
}

// Sides that are no multiple of patch times windows are padded, and boxes do not depend on the padding.
TEST(RfDetr, TakesImagesOfAnySize) {
  NoGrad no_grad;
  auto model = small_rf_detr("rf_detr");
  model->set_training(false);
  const Tensor image = random_numbers({1, 21, 30, 3}, 2);
  Tensor padded = Tensor::zeros({1, 24, 32, 3});
  padded.slice(1, 0, 21).slice(2, 0, 30).copy_from(image);
  const SetOutput a = set_output(*model->forward({.images = Var(image)})),
                  b = set_output(*model->forward({.images = Var(padded), .sizes = {{21, 30}}}));
  EXPECT_EQ(a.layers.back().boxes.value().to_vector<float>(),
            b.layers.back().boxes.value().to_vector<float>());
}

TEST(RfDetrMasks, AreTheBiasWhereNothingIsProjected) {
  NoGrad no_grad;
  auto model = small_rf_detr("rf_detr_seg");
  model->set_training(false);
  for (const NamedTensor& t : model->named_tensors()) {
    Var v = t.var;
    if (t.name.starts_with("segmentation_head.spatial_features_proj.")) v.value().fill(0);
    if (t.name == "segmentation_head.bias") v.value().fill(0.375);
  }
  const SetOutput output = set_output(*model->forward({.images = Var(random_numbers({1, 32, 48, 3}, 3))}));
  const Var& masks = output.layers.back().masks;
  EXPECT_EQ(masks.shape(), Shape({1, 5, 8, 12}));
  for (float v : masks.value().to_vector<float>()) EXPECT_EQ(v, 0.375F);
}

// ---- losses at points ---------------------------------------------------------------------------

// One image of 8 x 8 pixels with two objects, each matched by a query of one layer.
struct PointCase {
  std::vector<Target> targets;
  LayerPrediction predicted;
  MatchedQueries matched;

  PointCase(const Tensor& pixels, const Tensor& queries, float bias, bool full_masks) : targets(1) {
    targets[0].image_id = 9;
    targets[0].height = targets[0].width = 8;
    test::set_objects(targets[0], {0, 1}, {0.5f, 0.5f, 0.5f, 0.5f, 0.4f, 0.4f, 0.3f, 0.3f});
    for (size_t i = 0; i < 2; ++i) {
      std::vector<uint8_t> bits(64, full_masks ? 1 : 0);
      for (size_t p = i; p < 40; p += 3) bits[p] = 1;
      targets[0].instances[i].mask = std::make_shared<const Mask>(Mask::from_bitmap({8, 8}, bits));
    }
    predicted.boxes = Var(Tensor::zeros({1, 1, queries.dim(2), 4}));
    predicted.mask_factors = {Var(pixels, true), Var(queries, true),
                              Var(Tensor::from<float>({1}, {bias}).to(pixels.dtype()), true), 4};
    matched.rows = {2, 0};
    matched.object_rows = {0, 1};
    for (const Instance& instance : targets[0].instances) matched.objects.push_back({&targets[0], &instance});
    matched.indices = Tensor::from<int64_t>({2}, matched.rows);
    matched.masks = std::make_shared<TrueMasks>(targets, ImageSize{8, 8}, Device::kCpu);
  }
  Var loss(const char* term) {
    matched.at_points = nullptr;
    return loss_terms().find(term, "a test").make(nullptr)->sum(predicted, matched);
  }
};

TEST(PointLosses, AreNothingWhereMasksAreRight) {
  PointCase c(Tensor::zeros({1, 1, 4, 4, 3}), Tensor::zeros({1, 1, 3, 3}), 20, true);
  EXPECT_NEAR(c.loss("point_mask").value().item(), 0, 1e-6);
  EXPECT_NEAR(c.loss("point_dice").value().item(), 0, 1e-6);
  PointCase wrong(Tensor::zeros({1, 1, 4, 4, 3}), Tensor::zeros({1, 1, 3, 3}), -20, true);
  EXPECT_NEAR(wrong.loss("point_mask").value().item(), 40, 1e-4);
}

TEST(PointLosses, GradientsAreThoseOfDifferences) {
  ExecutionScope scope;
  execution().rng_key = 5;
  const Tensor pixels = random_numbers({1, 1, 4, 4, 3}, 11).to(DType::kF64),
               queries = random_numbers({1, 1, 3, 3}, 12).to(DType::kF64);
  for (const char* term : {"point_mask", "point_dice"}) {
    PointCase c(pixels.clone(), queries.clone(), 0.1F, false);
    backward(sum(c.loss(term)));
    for (Var* x : {&c.predicted.mask_factors.pixels, &c.predicted.mask_factors.queries,
                   &c.predicted.mask_factors.bias}) {
      ASSERT_TRUE(x->grad().defined());
      const auto gradient = x->grad().to_vector<double>();
      auto* values = x->value().data<double>();
      for (size_t i = 0; i < gradient.size(); ++i) {
        const double kept = values[i], step = 1e-4;
        double sides[2];
        for (int s = 0; s < 2; ++s) {
          values[i] = kept + (s == 0 ? -step : step);
          NoGrad no_grad;
          sides[s] = static_cast<double>(sum(c.loss(term)).value().item());
        }
        values[i] = kept;
        EXPECT_NEAR(gradient[i], (sides[1] - sides[0]) / (2 * step), 2e-5) << term << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace saccade
