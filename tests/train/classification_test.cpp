// Tests classifiers: the loss with soft targets, the metrics, and what the options of their recipes mean.
#include "train/tasks/classification/classification.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/tensor/philox.h"
#include "data/formats/data_format.h"
#include "tests/test_folder.h"
#include "train/config/options.h"

namespace saccade {
namespace {

Batch labelled(const std::vector<int64_t>& labels, double lambda) {
  Batch b;
  for (int64_t label : labels) {
    Target t;
    t.label = label;
    b.targets.push_back(t);
  }
  b.lambda = lambda;
  return b;
}

TEST(SoftTargets, EqualTheirFormula) {
  constexpr int64_t N = 5, K = 4;
  Rng rng(1);
  Tensor x = Tensor::empty({N, K}, DType::kF64);
  for (int64_t i = 0; i < N * K; ++i) x.data<double>()[i] = 3 * rng.normal();
  const std::vector<int64_t> labels{2, 0, 3, 3, 1};
  for (double lambda : {1.0, 0.7, 0.2})
    for (double smoothing : {0.0, 0.1}) {
      double wanted = 0;
      for (size_t n = 0; n < N; ++n) {
        const double* row = x.data<double>() + n * K;
        double sum = 0;
        for (int64_t k = 0; k < K; ++k) sum += std::exp(row[k]);
        for (int64_t k = 0; k < K; ++k) {
          auto smooth = [&](int64_t label) { return (1 - smoothing) * (k == label) + smoothing / K; };
          double target = lambda * smooth(labels[n]) + (1 - lambda) * smooth(labels[N - 1 - n]);
          wanted -= target * (row[k] - std::log(sum));
        }
      }
      // The loss computes in f32.
      Var loss = soft_target_loss(Var(x.to(DType::kF32)), labelled(labels, lambda), smoothing);
      EXPECT_NEAR(loss.value().item(), wanted, 1e-5 * wanted) << lambda << " " << smoothing;
    }
}

// Logits that follow from the mean colour of the image: (red, green, blue, 0, 0, 0).
class ByColour : public Classifier {
 public:
  Var forward(const Var& images) override {
    const int space[] = {1, 2};
    Var colour = mean(images, space);
    return concat(std::vector<Var>{colour, Var(Tensor::zeros({colour.dim(0), 3}))}, 1);
  }
  int64_t num_classes() const override { return 6; }
  std::string type_name() const override { return "ByColour"; }
};

TEST(TopK, CountsTheBestAndTheBestFive) {
  TestFolder folder;
  auto add = [&](const std::string& name, uint8_t red, uint8_t green) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    Image image(4, 4);
    for (size_t i = 0; i < image.rgb.size(); i += 3) image.rgb[i] = red, image.rgb[i + 1] = green;
    write_png(image, folder / name);
  };
  // Classes a to f are the columns 0 to 5.
  add("a/hit.png", 255, 0);
  add("a/second.png", 128, 255);
  add("b/tie.png", 255, 255);  // equal logits: the smaller class is the better one
  add("c/x.png", 255, 255);    // 0 like d, e and f, but of a smaller index: third
  add("d/x.png", 255, 255);    // fourth
  add("e/x.png", 255, 255);    // fifth
  add("f/x.png", 255, 255);    // sixth
  ByColour model;
  model.set_training(true);
  EvaluatorOptions options;
  options.normalization = {.mean = {0, 0, 0}, .std = {1, 1, 1}};
  options.loader.batch_size = 3;
  options.loader.epochs = 1;
  options.quiet = true;
  const auto set = open_dataset({.images = folder.path(), .wants = {.image_classes = true}});
  Evaluation evaluation =
      evaluate_classifier(model, set, evaluators("classification").find("top_k"), options);
  EXPECT_TRUE(model.training());
  ASSERT_EQ(evaluation.metrics.size(), 3u);
  EXPECT_EQ(evaluation.metrics[0].second, 1.0 / 7);
  EXPECT_EQ(evaluation.metrics[1].second, 6.0 / 7);
  auto nll = [](double own, double red, double green) {
    return std::log(std::exp(red) + std::exp(green) + 4) - own;
  };
  double half = 128 / 255.0;
  double wanted = (nll(1, 1, 0) + nll(half, half, 1) + nll(1, 1, 1) + 4 * nll(0, 1, 1)) / 7;
  EXPECT_NEAR(evaluation.metrics[2].second, wanted, 1e-6);
  EXPECT_EQ(evaluation.json.substr(0, 30), "{\"top1\": 0.14285714285714285, ");
  EXPECT_NE(evaluation.json.find("\"images\": 7"), std::string::npos);
}

TEST(ClassifierConfig, OptionsFollowTheRecipe) {
  Config c = parse_config(R"(
model { type: "classifier" }
data {
  augment { height: 48 width: 48 crop_area_min: 0.1 crop_ratio_max: 2 erase_probability: 0.25 }
  interpolation: bicubic
  mix { mixup_alpha: 0.8 cutmix_alpha: 1 cutmix_probability: 0.25 }
  val_height: 48 val_width: 48 val_crop_pct: 0.9
  mean: [0.5, 0.5, 0.5]
})",
                          "c");
  validate_config(c);
  LoaderOptions o = train_loader(c);
  const AugmentFields fields = augment_fields(c);
  EXPECT_EQ(fields.filter, Filter::kBicubic);
  EXPECT_EQ(fields.number("crop_area_min"), 0.1);
  EXPECT_EQ(fields.number("crop_ratio_max"), 2);
  EXPECT_EQ(fields.mean[1], 0.5);
  ASSERT_EQ(o.augment.size(), 3u);  // no crop before the size
  EXPECT_EQ(o.augment[0].name, "horizontal_flip");
  EXPECT_EQ(o.augment[1].name, "area_crop");
  EXPECT_EQ(o.augment[2].name, "random_erasing");
  EXPECT_EQ(o.augment[2].probability, 0.25);
  EXPECT_EQ(o.mix.mixup_alpha, 0.8);
  EXPECT_EQ(o.mix.cutmix_probability, 0.25);
  Augmentation eval = eval_augment(c);
  ASSERT_EQ(eval.size(), 1u);
  EXPECT_EQ(eval[0].name, "center_crop");
  Sample sample;
  sample.image = Image(60, 80);
  Rng rng(0);
  sample = augment(std::move(sample), eval, rng);
  EXPECT_EQ(sample.image.width, 48);
  EXPECT_FALSE(eval_loader(c).mix.on());
  // A classifier has no transformer, not even by default.
  EXPECT_FALSE(resolve_config(c).model().has_transformer());
}

}  // namespace
}  // namespace saccade
