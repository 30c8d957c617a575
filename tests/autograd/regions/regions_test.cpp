// Compares ops that cut regions out of maps with torchvision and PyTorch (scripts/golden/make_regions.py).
#include <gtest/gtest.h>
#include <omp.h>

#include "autograd/engine.h"
#include "autograd/ops.h"
#include "core/kernels/nms/nms.h"
#include "core/kernels/roi_align/roi_align.h"
#include "core/runtime/parallel.h"
#include "core/tensor/philox.h"
#include "tests/autograd/golden.h"

namespace saccade {
namespace {

// f32 sums of up to some hundred terms; positions of up to 30 cells are exact to 2e-6 of one.
constexpr double kTolerance = 1e-5;

// The largest difference relative to the largest value, since most cells of a map have no gradient.
double part_of_largest(const Tensor& got, const Tensor& expected) {
  EXPECT_EQ(got.shape(), expected.shape());
  const auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  double worst = 0, largest = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::isnan(a[i]) ? INFINITY : std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return worst / largest;
}

class GenericKernels : ExecutionScope {
 public:
  explicit GenericKernels(bool on) { execution().generic_kernels = on; }
};

struct RoiGolden {
  const char* name;
  RoiAlignOptions options;
};

TEST(Regions, RoiAlignIsThatOfTorchvision) {
  const Golden golden("regions/roi_align.safetensors");
  const std::vector<int64_t> strides{4, 8, 16, 32};
  for (const auto& [name, options] : {RoiGolden{"adaptive", {7, strides}}, RoiGolden{"masks", {14, strides}},
                                      RoiGolden{"two", {7, strides, 2, false}}}) {
    for (bool generic : {false, true}) {
      SCOPED_TRACE(testing::Message() << name << ", generic " << generic);
      const GenericKernels scope(generic);
      Vars maps;
      for (int i = 0; i < 4; ++i) maps.emplace_back(golden[fmt::format("map{}", i)], true);
      const Var y = roi_align(maps, golden["rois"], golden["level"], golden["image"], options);
      EXPECT_LT(error_of(y.value(), golden[fmt::format("{}.y", name)]), kTolerance);
      backward(y, golden[fmt::format("{}.dy", name)]);
      for (int i = 0; i < 4; ++i)
        EXPECT_LT(
            part_of_largest(maps[static_cast<size_t>(i)].grad(), golden[fmt::format("{}.d{}", name, i)]),
            kTolerance)
            << "level " << i;
    }
  }
}

TEST(Regions, SamplesOfACellHaveALimit) {
  const auto crop = [](int64_t samples) {
    const Tensor none = Tensor::zeros({0}, DType::kI64);
    return roi_align({Var(Tensor::zeros({1, 4, 4, 2}))}, Tensor::zeros({0, 4}), none, none,
                     {7, {8}, samples});
  };
  EXPECT_EQ(crop(kernels::RoiAlignParams::kMaxSamples).shape(), Shape({0, 7, 7, 2}));
  EXPECT_THROW(crop(kernels::RoiAlignParams::kMaxSamples + 1), Error);
}

TEST(Regions, NmsIsThatOfTorchvision) {
  const Golden golden("regions/nms.safetensors");
  const int64_t K = golden["scores"].dim(0);
  const Tensor boxes = golden["boxes"].reshape({1, K, 4}), scores = golden["scores"].reshape({1, K}),
               groups = golden["groups"].reshape({1, K});
  for (const char* threshold : {"0.3", "0.5", "0.7"}) {
    Tensor keep = Tensor::empty({1, K}, DType::kBool);
    kernels::nms(boxes, scores, groups, std::stod(threshold), keep);
    EXPECT_EQ(keep.to_vector<int64_t>(), golden[fmt::format("keep_{}", threshold)].to_vector<int64_t>())
        << threshold;
  }
}

TEST(Regions, ResizingIsThatOfPyTorch) {
  const Golden golden("regions/resize.safetensors");
  for (const std::string mode : {"nearest", "bilinear"})
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{10, 14}, {9, 13}, {3, 4}}) {
      const std::string name = fmt::format("{}_{}_{}", mode, height, width);
      SCOPED_TRACE(name);
      const Var x(golden["x"], true);
      const Var y = mode == "nearest" ? resize_nearest(x, height, width) : resize_bilinear(x, height, width);
      EXPECT_LT(error_of(y.value(), golden[name + ".y"]), kTolerance);
      backward(y, golden[name + ".dy"]);
      EXPECT_LT(error_of(x.grad(), golden[name + ".dx"]), kTolerance);
    }
  const Var y = conv_transpose2d(Var(golden["x"]), Var(golden["weight"]), Var(golden["bias"]), 2);
  EXPECT_LT(error_of(y.value(), golden["transposed"]), kTolerance);
}

// The boxes overlap one another, and the maps have several bands of rows.
TEST(Regions, SameBitsOnAnyNumberOfThreads) {
  Rng rng(11);
  auto random = [&](const Shape& shape) {
    Tensor t = Tensor::empty(shape);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
    return t;
  };
  const Tensor fine = random({2, 40, 36, 33}), coarse = random({2, 20, 18, 33}), dy = random({60, 7, 7, 33});
  Tensor rois = Tensor::empty({60, 4}), level = Tensor::empty({60}, DType::kI64), image = level.empty_like();
  for (int64_t r = 0; r < 60; ++r) {
    float* box = rois.data<float>() + 4 * r;
    for (int64_t axis : {0, 1}) {
      box[axis] = static_cast<float>(rng.uniform(-10, 120));
      box[axis + 2] = box[axis] + static_cast<float>(rng.uniform(1, 90));
    }
    level.data<int64_t>()[r] = rng.below(2);
    image.data<int64_t>()[r] = rng.below(2);
  }
  std::vector<Tensors> results;
  const int before = omp_get_max_threads();
  for (int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    const Vars maps{Var(fine, true), Var(coarse, true)};
    const Var y = roi_align(maps, rois, level, image, {.strides = {4, 8}});
    backward(y, dy);
    results.push_back({y.value(), maps[0].grad(), maps[1].grad()});
  }
  omp_set_num_threads(before);
  for (size_t i = 0; i < 3; ++i)
    for (size_t k : {1, 2})
      EXPECT_EQ(results[k][i].to_vector<float>(), results[0][i].to_vector<float>()) << "result " << i;
}

}  // namespace
}  // namespace saccade
