// Tests DINOv2 with and without windows. Whole models: tests/train/checkpoints/rf_detr_transformers_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/scope.h"
#include "core/tensor/philox.h"
#include "models/backbone.h"
#include "models/dinov2/dinov2.h"

namespace saccade {
namespace {

Tensor dino_images(int64_t height, int64_t width) {
  Tensor images = Tensor::empty({2, height, width, 3});
  Rng rng(5);
  for (int64_t i = 0; i < images.numel(); ++i)
    images.data<float>()[i] = static_cast<float>(rng.uniform(-1.0, 1.0));
  return images;
}

std::shared_ptr<Backbone> small_vit(const std::string& type, int64_t windows = 1, double layer_scale = 1,
                                    const std::vector<int64_t>& windowed = {}) {
  Args section;
  section.set("type", type);
  for (const auto& [key, value] : {std::pair<const char*, int64_t>{"image_size", 32},
                                   {"patch", 4},
                                   {"dim", 16},
                                   {"depth", 3},
                                   {"heads", 2}})
    section.set(key, value);
  if (type == "dinov2") {
    section.set("windows", windows);
    section.set("windowed_blocks", windowed);
    section.set("layer_scale", layer_scale);
  }
  auto backbone = build_backbone(section, {});
  backbone->initialize(3);
  backbone->set_training(false);
  return backbone;
}

// Its parameters are drawn by their names, which are ViT's: without windows and with scales of 1 it is a ViT.
TEST(DinoV2, IsAViTWithoutWindowsAndScales) {
  NoGrad no_grad;
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{32, 32}, {24, 40}}) {
    const Var images(dino_images(height, width));
    const auto a = small_vit("dinov2")->forward(images)[0].value().to_vector<float>(),
               b = small_vit("vit")->forward(images)[0].value().to_vector<float>();
    EXPECT_EQ(a, b);
    EXPECT_NE(a, small_vit("dinov2", 1, 0.5)->forward(images)[0].value().to_vector<float>());
  }
}

TEST(DinoV2, WindowsAreJoinedAsTheyWereCut) {
  const Tensor map = dino_images(8, 12);
  for (int64_t side : {1, 2, 4}) {
    const Var cut = cut_windows(Var(map), side);
    EXPECT_EQ(cut.shape(), Shape({2 * side * side, 96 / (side * side), 3}));
    EXPECT_EQ(join_windows(cut, {8, 12}, side).value().to_vector<float>(), map.to_vector<float>());
  }
}

// Without positions a block that sees all windows gives the same result whatever their order; windows see
// nothing of each other.
TEST(DinoV2, OnlyGlobalBlocksLookAcrossWindows) {
  NoGrad no_grad;
  const Tensor images = dino_images(16, 16);
  Tensor swapped = images.clone();
  const Var whole(images), halves = concat({slice(whole, 2, 8, 16), slice(whole, 2, 0, 8)}, 2);
  swapped.copy_from(halves.value());
  Tensor changed = images.clone();
  changed.slice(2, 8, 16).fill(0);
  auto run = [&](const Tensor& x, const std::vector<int64_t>& windowed) {
    auto backbone = small_vit("dinov2", 2, 1, windowed);
    for (const NamedTensor& t : backbone->named_tensors())
      if (Var v = t.var; t.name == "pos_embed") v.value().fill(0);
    return backbone->forward(Var(x))[0];  // [2, 4, 4, 16]
  };
  auto values = [](const Var& x, int64_t begin) {
    return slice(x, 2, begin, begin + 2).value().contiguous().to_vector<float>();
  };
  auto near = [](const std::vector<float>& a, const std::vector<float>& b) {
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
    return worst;
  };
  const Var straight = run(images, {}), across = run(swapped, {});
  EXPECT_LE(near(values(straight, 0), values(across, 2)), 1e-5);
  EXPECT_LE(near(values(straight, 2), values(across, 0)), 1e-5);
  EXPECT_GE(near(values(straight, 0), values(run(changed, {}), 0)), 1e-3);
  EXPECT_EQ(values(run(images, {0, 1, 2}), 0), values(run(changed, {0, 1, 2}), 0));
}

// The map's cells are the tokens behind the class token and the registers: their mean is what the class head
// reads (tests/train/checkpoints/classifiers_test.cpp compares that with transformers).
TEST(DinoV2, RegistersAreReadByNobody) {
  NoGrad no_grad;
  Args section;
  section.set("type", std::string("dinov2"));
  for (const auto& [key, value] : {std::pair<const char*, int64_t>{"image_size", 32},
                                   {"patch", 4},
                                   {"dim", 16},
                                   {"depth", 2},
                                   {"heads", 2},
                                   {"registers", 3}})
    section.set(key, value);
  auto backbone = build_backbone(section, {});
  auto classifier = backbones().find("dinov2", "type").build_classifier(section, 32);
  for (Module* model : {static_cast<Module*>(backbone.get()), static_cast<Module*>(classifier.get())}) {
    model->initialize(3);
    model->set_training(false);
    for (const NamedTensor& t : model->named_tensors()) {
      Var v = t.var;
      if (t.name == "register_tokens") {
        ASSERT_EQ(v.shape(), Shape({1, 3, 16}));
        v.value().copy_from(dino_images(4, 4).reshape({-1}).slice(0, 0, 48).reshape({1, 3, 16}));
      }
      if (t.name == "head.weight")
        for (int64_t i = 0; i < 32 * 32; ++i) v.value().data<float>()[i] = i % 33 == 0 ? 1 : 0;
    }
  }
  const Var images(dino_images(24, 40));
  const Var map = backbone->forward(images)[0];
  ASSERT_EQ(map.shape(), Shape({2, 6, 10, 16}));
  const int cells[] = {1};
  const auto of_map = mean(reshape(map, {2, 60, 16}), cells).value().to_vector<float>(),
             read = slice(classifier->forward(images), 1, 16, 32).value().contiguous().to_vector<float>();
  ASSERT_EQ(read.size(), of_map.size());
  for (size_t i = 0; i < read.size(); ++i) EXPECT_NEAR(read[i], of_map[i], 1e-5);
  for (const NamedTensor& t : backbone->named_tensors())
    if (Var v = t.var; t.name == "register_tokens") v.value().fill(0);
  EXPECT_NE(backbone->forward(images)[0].value().to_vector<float>(), map.value().to_vector<float>());
  section.set("style", std::string("cae"));
  EXPECT_THROW(build_backbone(section, {}), InputError);
}

// Heads may ask for strides of 4 to 32.
TEST(DinoV2, MayStandInForAPyramid) {
  NoGrad no_grad;
  auto maps_of = [](const std::vector<int64_t>& defaults, int64_t height, int64_t width) {
    Args section;
    section.set("type", std::string("dinov2"));
    for (const auto& [key, value] :
         {std::pair<const char*, int64_t>{"image_size", 28}, {"dim", 16}, {"depth", 1}, {"heads", 2}})
      section.set(key, value);
    section.set("pyramid", true);
    auto backbone = build_backbone(section, defaults);
    backbone->initialize(3);
    backbone->set_training(false);
    EXPECT_EQ(backbone->channels(), std::vector<int64_t>(defaults.size(), 16));
    return backbone->forward(Var(dino_images(height, width)));
  };
  const std::vector<Var> maps = maps_of({1, 2, 3, 4}, 64, 96);
  ASSERT_EQ(maps.size(), 4U);
  for (int64_t l = 0; l < 4; ++l)
    EXPECT_EQ(maps[static_cast<size_t>(l)].shape(), Shape({2, 16 >> l, 24 >> l, 16}));
  EXPECT_EQ(maps_of({2, 3, 4}, 60, 33)[0].shape(), Shape({2, 8, 5, 16}));
}

}  // namespace
}  // namespace saccade
