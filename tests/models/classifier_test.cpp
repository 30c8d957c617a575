// Tests ResNet as a classifier: torchvision's names and sizes. (tests/train/golden/golden_model_test.cpp
// compares its body with PyTorch.)
#include <gtest/gtest.h>

#include <algorithm>

#include "models/backbone.h"
#include "models/build.h"
#include "tests/models/schema_args.h"

namespace saccade {
namespace {

Args resnet(int64_t depth) {
  Args model = test::schema_args("classifier");
  Args& backbone = model.section("backbone");
  backbone.set("depth", depth);
  backbone.set("frozen_stages", int64_t{0});
  backbone.set("frozen_batch_norm", false);
  return model;
}

TEST(ResNetClassifier, HasTorchvisionsParameters) {
  // torchvision.models.resnet18 and resnet50
  EXPECT_EQ(build_as<Classifier>(resnet(18), 1000)->parameter_count(true), 11689512);
  auto model = build_as<Classifier>(resnet(50), 1000);
  EXPECT_EQ(model->parameter_count(true), 25557032);
  EXPECT_EQ(model->num_classes(), 1000);
  std::vector<NamedTensor> parameters = model->parameters();
  for (const char* name : {"conv1.weight", "layer4.2.bn3.weight", "fc.weight", "fc.bias"})
    EXPECT_TRUE(std::any_of(parameters.begin(), parameters.end(), [&](auto& p) { return p.name == name; }))
        << name;
}

TEST(ResNetClassifier, IsLinearInTheMeanOfTheLastMap) {
  Args args = resnet(18);
  Args& backbone = args.section("backbone");
  backbone.set("blocks", std::vector<int64_t>{1, 1});
  backbone.set("width", int64_t{4});
  backbone.set("frozen_batch_norm", true);
  auto model = build_as<Classifier>(args, 3);
  model->initialize(1);
  Rng rng(2);
  Tensor images = Tensor::empty({2, 19, 26, 3});
  for (int64_t i = 0; i < images.numel(); ++i) images.data<float>()[i] = static_cast<float>(rng.normal());
  auto body = build_backbone(backbone, {2});
  body->initialize(1);  // parameters are drawn by their names, which are the same
  Tensor map = body->forward(Var(images)).back().value();
  auto find = [&](const std::string& name) {
    for (const NamedTensor& t : model->parameters())
      if (t.name == name) return t.var.value().to_vector<float>();
    return std::vector<float>();
  };
  std::vector<float> logits = model->forward(Var(images)).value().to_vector<float>(),
                     values = map.to_vector<float>();
  std::vector<float> weight = find("fc.weight"), bias = find("fc.bias");
  const size_t C = static_cast<size_t>(map.dim(3)), pixels = static_cast<size_t>(map.dim(1) * map.dim(2));
  for (size_t n = 0; n < 2; ++n)
    for (size_t k = 0; k < 3; ++k) {
      double wanted = bias[k];
      for (size_t p = 0; p < pixels; ++p)
        for (size_t c = 0; c < C; ++c)
          wanted += weight[k * C + c] * values[(n * pixels + p) * C + c] / static_cast<double>(pixels);
      EXPECT_NEAR(logits[n * 3 + k], wanted, 1e-5);
    }
}

}  // namespace
}  // namespace saccade
