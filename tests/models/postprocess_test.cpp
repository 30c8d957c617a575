// Tests which detections are chosen, and their coordinates.
#include "models/detection/postprocess.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/runtime/gpu.h"
#include "core/tensor/error.h"
#include "core/tensor/philox.h"
#include "models/detection/set_output.h"

namespace saccade {
namespace {

// Two queries, three columns; the boxes are simple fractions.
SetOutput output_of(const std::vector<float>& logits) {
  SetOutput output;
  LayerPrediction p;
  p.logits = Var(Tensor::from<float>({1, 2, 3}, logits));
  p.boxes =
      Var(Tensor::from<float>({1, 2, 4}, std::vector<float>{0.5f, 0.5f, 0.5f, 0.25f, 0.25f, 0.75f, 1, 0.5f}));
  output.layers.push_back(p);
  return output;
}

std::vector<Target> one_target() {
  Target t;
  t.image_id = 7;
  t.original_width = 200;
  t.original_height = 100;
  t.width = t.height = 64;
  return {t};
}

std::vector<std::vector<ImageDetection>> detections(const SetOutput& output,
                                                    const std::vector<Target>& targets,
                                                    const PostprocessOptions& options = {},
                                                    const char* class_loss = "focal") {
  return postprocess(output, targets, options, *class_losses().find(class_loss).make({}));
}

TEST(Postprocess, SigmoidTakesTheBestPairs) {
  auto d = detections(output_of({0, 2, -1, 1, -3, 2}), one_target(), {.max_detections = 3}).at(0);
  ASSERT_EQ(d.size(), 3u);
  // Equal scores are ordered by query.
  EXPECT_EQ(d[0].query, 0);
  EXPECT_EQ(d[0].label, 1);
  EXPECT_EQ(d[1].query, 1);
  EXPECT_EQ(d[1].label, 2);
  EXPECT_EQ(d[2].label, 0);
  EXPECT_DOUBLE_EQ(d[0].score, 1 / (1 + std::exp(-2.0)));
  EXPECT_DOUBLE_EQ(d[0].box.x1, 50);
  EXPECT_DOUBLE_EQ(d[0].box.y1, 37.5);
  EXPECT_DOUBLE_EQ(d[0].box.x2, 150);
  EXPECT_DOUBLE_EQ(d[0].box.y2, 62.5);
  EXPECT_DOUBLE_EQ(d[1].box.x1, -50);  // not cut to the image
  // There are fewer candidates than asked for; columns after the classes are not chosen.
  EXPECT_EQ(detections(output_of({0, 2, -1, 1, -3, 2}), one_target()).at(0).size(), 6u);
  auto two = detections(output_of({0, 2, -1, 1, -3, 2}), one_target(), {.classes = 2}).at(0);
  EXPECT_EQ(two.size(), 4u);
  for (const auto& x : two) EXPECT_LT(x.label, 2);
}

TEST(Postprocess, EachImageHasItsOwnPredictions) {
  SetOutput output;
  LayerPrediction p;
  std::vector<float> logits(2 * 2 * 3, -5), boxes;
  logits[1] = 2;          // image 0, query 0, class 1
  logits[6 + 3 + 2] = 3;  // image 1, query 1, class 2
  for (float x : {0.1f, 0.3f, 0.5f, 0.7f}) boxes.insert(boxes.end(), {x, 0.5f, 0.1f, 0.5f});
  p.logits = Var(Tensor::from<float>({2, 2, 3}, logits));
  p.boxes = Var(Tensor::from<float>({2, 2, 4}, boxes));
  output.layers.push_back(p);
  std::vector<Target> targets = one_target();
  targets.push_back(targets[0]);
  targets[1].original_width = 400;
  const auto found = detections(output, targets, {.max_detections = 1});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0][0].label, 1);
  EXPECT_NEAR(found[0][0].box.x1, 10, 1e-4);  // roundings in f32
  EXPECT_EQ(found[1][0].label, 2);
  EXPECT_NEAR(found[1][0].box.x1, 260, 1e-4);
}

// Boxes of 100 x 50 pixels, moved to the right by 0, 10, 20 and 60 pixels, so that 90, 80 and 40 % of the
// first are left in common.
TEST(Postprocess, OverlappedDetectionsOfAClassGo) {
  SetOutput output;
  LayerPrediction p;
  p.logits = Var(Tensor::from<float>({1, 4, 2}, std::vector<float>{4, -9, 3, -8, 2, 3.5f, 1, -7}));
  std::vector<float> boxes;
  for (float x : {0.25f, 0.3f, 0.35f, 0.55f}) boxes.insert(boxes.end(), {x, 0.5f, 0.5f, 0.5f});
  p.boxes = Var(Tensor::from<float>({1, 4, 4}, boxes));
  output.layers.push_back(p);
  auto found = [&](double nms, int64_t most) {
    std::vector<std::pair<int64_t, int64_t>> out;  // class, query
    const auto images = detections(output, one_target(), {.max_detections = most, .nms = nms});
    for (const ImageDetection& d : images.at(0)) out.emplace_back(d.label, d.query);
    return out;
  };
  using Found = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(found(1, 5), (Found{{0, 0}, {1, 2}, {0, 1}, {0, 2}, {0, 3}}));
  // 90 / 110 goes, 80 / 120 (whose better neighbour has gone) stays, and the next one moves up.
  EXPECT_EQ(found(0.7, 4), (Found{{0, 0}, {1, 2}, {0, 2}, {0, 3}}));
  EXPECT_EQ(found(0.3, 4), (Found{{0, 0}, {1, 2}, {0, 3}}));
  EXPECT_EQ(found(0, 9), (Found{{0, 0}, {1, 2}}));
}

TEST(Postprocess, TheFirstNumberOfABoxIsChecked) {
  SetOutput output = output_of({0, 2, -1, 1, 0, 2});
  std::vector<float> boxes = output.layers[0].boxes.value().to_vector<float>();
  boxes[0] = std::numeric_limits<float>::infinity();
  output.layers[0].boxes = Var(Tensor::from<float>({1, 2, 4}, boxes));
  EXPECT_THROW(detections(output, one_target()), Error);
}

TEST(Postprocess, SoftmaxTakesOneClassPerQuery) {
  auto d = detections(output_of({0, 1, 5, 3, 0, 0}), one_target(), {}, "softmax").at(0);
  ASSERT_EQ(d.size(), 2u);
  EXPECT_EQ(d[0].query, 1);
  EXPECT_EQ(d[0].label, 0);
  EXPECT_NEAR(d[0].score, std::exp(3.0) / (std::exp(3.0) + 2), 1e-6);
  EXPECT_EQ(d[1].label, 1);
  EXPECT_NEAR(d[1].score, std::exp(1.0) / (1 + std::exp(1.0) + std::exp(5.0)), 1e-6);
}

// The logits have ties, zeros of both signs and columns that are not chosen.
SetOutput random_output(int64_t N, int64_t Q, int64_t K) {
  Rng rng(5);
  std::vector<float> logits, boxes;
  for (int64_t i = 0; i < N * Q * K; ++i)
    logits.push_back(static_cast<float>(std::round(rng.uniform(-4, 4)) * (rng.uniform() < 0.5 ? -1 : 1)));
  for (int64_t i = 0; i < N * Q * 4; ++i) boxes.push_back(static_cast<float>(rng.uniform()));
  SetOutput output;
  output.layers.push_back({.logits = Var(Tensor::from<float>({N, Q, K}, logits)),
                           .boxes = Var(Tensor::from<float>({N, Q, 4}, boxes))});
  return output;
}

SetOutput on_gpu(const SetOutput& output) {
  SetOutput there;
  const LayerPrediction& p = output.layers.back();
  there.layers.push_back(
      {.logits = Var(p.logits.value().to(Device::kCuda)), .boxes = Var(p.boxes.value().to(Device::kCuda))});
  return there;
}

// The results are equal to the bit, and the host waits once.
TEST(Postprocess, TheGpuPicksWhatTheHostDoes) {
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  const SetOutput output = random_output(2, 37, 11);
  std::vector<Target> targets = one_target();
  targets.push_back(targets[0]);
  targets[1].original_width = 333;
  SetOutput low = output;  // bf16 rounds nothing: the logits are small integers
  low.layers[0].logits = Var(output.layers[0].logits.value().to(DType::kBF16));
  for (const char* loss : {"focal", "varifocal", "softmax"})
    for (const PostprocessOptions& options :
         {PostprocessOptions{}, PostprocessOptions{.max_detections = 7}, PostprocessOptions{.classes = 4},
          PostprocessOptions{.max_detections = 9000}, PostprocessOptions{.max_detections = 50, .nms = 0.5}}) {
      const BatchDetections want = detections(output, targets, options, loss);
      const SetOutput there = on_gpu(low);
      const int64_t before = cuda_statistics().host_syncs;
      const BatchDetections got = detections(there, targets, options, loss);
      EXPECT_LE(cuda_statistics().host_syncs - before, 1);
      ASSERT_EQ(got.size(), want.size());
      for (size_t n = 0; n < want.size(); ++n) {
        ASSERT_EQ(got[n].size(), want[n].size()) << loss;
        for (size_t i = 0; i < want[n].size(); ++i) {
          const ImageDetection &a = want[n][i], &b = got[n][i];
          EXPECT_TRUE(a.query == b.query && a.label == b.label && a.score == b.score && a.area == b.area &&
                      a.box.x1 == b.box.x1 && a.box.y1 == b.box.y1 && a.box.x2 == b.box.x2 &&
                      a.box.y2 == b.box.y2)
              << loss << ", image " << n << ", detection " << i;
        }
      }
    }
}

TEST(Postprocess, TheGpuNamesBadPredictionsAsTheHostDoes) {
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  auto problem = [](const SetOutput& output) -> std::string {
    try {
      detections(output, one_target(), {.max_detections = 5});
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  struct Bad {
    bool box;
    int64_t place;
    float value;
  };
  for (const std::vector<Bad>& all :
       {std::vector<Bad>{{false, 12 * 3 + 1, kInf}}, std::vector<Bad>{{false, 0, -kInf}, {false, 50, kInf}},
        std::vector<Bad>{{true, 4 * 19 + 3, std::numeric_limits<float>::quiet_NaN()}, {true, 4 * 20, kInf}},
        std::vector<Bad>{{true, 0, kInf}, {false, 20 * 3 - 1, -kInf}}, std::vector<Bad>{{true, 0, kInf}}}) {
    const SetOutput output = random_output(1, 20, 3);
    for (const Bad& bad : all) {
      Tensor t = bad.box ? output.layers[0].boxes.value() : output.layers[0].logits.value();
      t.data<float>()[bad.place] = bad.value;
    }
    EXPECT_EQ(problem(on_gpu(output)), problem(output));
    EXPECT_NE(problem(output), "none");
  }
}

TEST(Postprocess, BadPredictionsNameTheImage) {
  try {
    detections(output_of({0, 2, -1, 1, std::numeric_limits<float>::quiet_NaN(), 2}), one_target());
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("image 7"), std::string::npos) << e.what();
  }
  EXPECT_THROW(detections(output_of({0, 2, -1, 1, 0, 2}), {}), Error);
}

// Compares with bilinear interpolation in f64, pixel by pixel: maps of one row, one column and one cell,
// images that fill a part of the canvas, larger and smaller than the map.
TEST(Postprocess, MasksAreTheInterpolatedLogitsAboveZero) {
  Rng rng(5);
  const struct {
    int64_t h, w, canvas_height, canvas_width, height, width, original_height, original_width;
  } cases[] = {{6, 9, 24, 36, 24, 36, 97, 150}, {6, 9, 24, 36, 20, 25, 61, 40},
               {1, 7, 4, 28, 4, 28, 9, 50},     {7, 1, 28, 4, 28, 4, 50, 9},
               {1, 1, 4, 4, 4, 4, 5, 6},        {20, 30, 80, 120, 80, 120, 11, 13}};
  for (const auto& c : cases) {
    SetOutput output = output_of({0, 2, -1, 1, -3, 2});
    std::vector<float> map;
    for (int64_t i = 0; i < 2 * c.h * c.w; ++i)
      map.push_back(static_cast<float>(rng.normal() + rng.below(3) - 1));
    output.layers[0].masks = Var(Tensor::from<float>({1, 2, c.h, c.w}, map));
    output.canvas = {c.canvas_height, c.canvas_width};
    std::vector<Target> targets = one_target();
    targets[0].height = c.height;
    targets[0].width = c.width;
    targets[0].original_height = c.original_height;
    targets[0].original_width = c.original_width;
    const auto found = detections(output, targets);
    for (const ImageDetection& d : found.at(0)) {
      const std::vector<uint8_t> pixels = d.mask->bitmap();
      EXPECT_EQ(d.area, std::accumulate(pixels.begin(), pixels.end(), 0.0));
      const float* of_query = map.data() + d.query * c.h * c.w;
      auto at = [](int64_t pixel, int64_t original, int64_t used, int64_t canvas, int64_t cells) {
        return std::clamp((static_cast<double>(pixel) + 0.5) * static_cast<double>(used * cells) /
                                  static_cast<double>(original * canvas) -
                              0.5,
                          0.0, static_cast<double>(cells - 1));
      };
      for (int64_t y = 0; y < c.original_height; ++y)
        for (int64_t x = 0; x < c.original_width; ++x) {
          const double v = at(y, c.original_height, c.height, c.canvas_height, c.h),
                       u = at(x, c.original_width, c.width, c.canvas_width, c.w);
          double sum = 0;
          for (int64_t i = 0; i < c.h; ++i)
            for (int64_t j = 0; j < c.w; ++j)
              sum += std::max(0.0, 1 - std::abs(v - static_cast<double>(i))) *
                     std::max(0.0, 1 - std::abs(u - static_cast<double>(j))) * of_query[i * c.w + j];
          if (std::abs(sum) < 1e-5) continue;  // roundings in f32
          ASSERT_EQ(pixels[static_cast<size_t>(y * c.original_width + x)], sum > 0)
              << c.h << " x " << c.w << ", pixel " << y << ", " << x;
        }
    }
  }
}

}  // namespace
}  // namespace saccade
