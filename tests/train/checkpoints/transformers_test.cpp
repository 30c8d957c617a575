// Compares Deformable DETR and DETR with transformers, an independent implementation: the weights as Hugging
// Face publishes them (safetensors) and as torch.save writes them (both formats, official names), through the
// reader, the name tables and the inferred configuration, to logits and boxes.
// scripts/golden/published/transformers_detectors.py makes the cases and lists the known differences between
// transformers and the official code. SACCADE_TRANSFORMERS_CASES names another folder of cases, such as that
// of the published sizes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "autograd/scope.h"
#include "core/formats/safetensors.h"
#include "models/build.h"
#include "models/detection/set_output.h"
#include "train/checkpoints/infer_config.h"
#include "train/checkpoints/init_from.h"
#include "train/config/options.h"

namespace saccade {
namespace {

std::string cases_folder() {
  const char* other = std::getenv("SACCADE_TRANSFORMERS_CASES");
  return other ? std::string(other) + "/" : SACCADE_SOURCE_DIR "/tests/golden/transformers/";
}

// Loads the detector that `saccade convert` would write, from the file alone where it says enough.
std::shared_ptr<Detector> load(const std::string& path, const std::string& variant, bool small) {
  auto file = open_weights(path);
  OfficialWeights weights = official_weights(*file);
  Config given;
  bool says_all = path.ends_with(".pth");
  if (!says_all && small) apply_set(given, "model.transformer.heads=4");
  if (!says_all && variant == "single_scale_dc5") apply_set(given, "model.backbone.dilation=true");
  if (!says_all && small && variant == "two_stage") apply_set(given, "model.transformer.queries=6");
  auto inferred = infer_config(*file, weights, given);
  EXPECT_TRUE(inferred.has_value());
  if (!inferred) return nullptr;
  EXPECT_TRUE(!says_all || inferred->assumed.empty()) << inferred->assumed.front();
  Config config = inferred->config;
  config.MergeFrom(given);
  auto model = build_as<Detector>(model_args(config), config.model().num_classes(), criterion_args(config));
  InitReport report = fill_model(*file, weights, *model);
  EXPECT_TRUE(report.missing.empty()) << testing::PrintToString(report.lines());
  EXPECT_TRUE(report.skipped.empty()) << testing::PrintToString(report.lines());
  model->set_training(false);
  return model;
}

double difference(const Tensor& a, const Tensor& b) {
  auto x = a.to_vector<float>(), y = b.to_vector<float>();
  EXPECT_EQ(x.size(), y.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(x[i] - y[i])));
  return worst;
}

// Returns, for each golden query, the nearest of ours [N, Q, C] that is not yet taken. Proposals whose scores
// are equal but for rounding may come in another order, which the decoder does not notice.
std::vector<std::vector<int64_t>> matching_queries(const Tensor& ours, const Tensor& golden) {
  std::vector<std::vector<int64_t>> order;
  for (int64_t n = 0; n < golden.dim(0); ++n) {
    std::vector<bool> taken(static_cast<size_t>(golden.dim(1)), false);
    std::vector<int64_t> rows;
    auto a = ours.select(0, n).to_vector<float>(), b = golden.select(0, n).to_vector<float>();
    const int64_t Q = golden.dim(1), C = golden.dim(2);
    for (int64_t q = 0; q < Q; ++q) {
      double nearest = 1e30;
      int64_t best = 0;
      for (int64_t k = 0; k < Q; ++k) {
        double worst = 0;
        for (int64_t c = 0; c < C; ++c)
          worst = std::max(worst, std::abs(static_cast<double>(a[static_cast<size_t>(k * C + c)]) -
                                           b[static_cast<size_t>(q * C + c)]));
        if (!taken[static_cast<size_t>(k)] && worst < nearest) {
          nearest = worst;
          best = k;
        }
      }
      taken[static_cast<size_t>(best)] = true;
      rows.push_back(best);
    }
    order.push_back(std::move(rows));
  }
  return order;
}

Tensor in_order(const Tensor& x, const std::vector<std::vector<int64_t>>& order) {
  Tensor out = Tensor::empty(x.shape(), x.dtype());
  for (int64_t n = 0; n < x.dim(0); ++n)
    for (int64_t q = 0; q < x.dim(1); ++q)
      out.select(0, n).select(0, q).copy_from(
          x.select(0, n).select(0, order[static_cast<size_t>(n)][static_cast<size_t>(q)]));
  return out;
}

class Transformers : public testing::TestWithParam<const char*> {};

TEST_P(Transformers, LogitsAndBoxesAreEqual) {
  const std::string folder = cases_folder(), variant = GetParam();
  SafetensorsReader golden(folder + variant + ".golden.safetensors"), images(folder + "images.safetensors");
  int files = 0;
  for (const char* suffix : {".safetensors", ".zip.pth", ".legacy.pth"}) {
    const std::string path = folder + variant + suffix;
    if (!std::filesystem::exists(path)) continue;  // not every format is committed for every variant
    SCOPED_TRACE(path);
    ++files;
    auto model = load(path, variant, golden.read("0.logits").dim(2) < 50);
    ASSERT_NE(model, nullptr);
    NoGrad no_grad;
    double logits = 0, boxes = 0;
    for (int b = 0; golden.find(fmt::format("{}.logits", b)); ++b) {
      DetectorInput input;
      input.images = Var(images.read(fmt::format("{}.images", b)).to(DType::kF32));
      auto sizes = images.read(fmt::format("{}.sizes", b)).to_vector<int64_t>();
      for (size_t n = 0; n < sizes.size(); n += 2) input.sizes.push_back({sizes[n], sizes[n + 1]});
      SetOutput output = set_output(*model->forward(input));
      Tensor all_logits = golden.read(fmt::format("{}.logits", b)),
             all_boxes = golden.read(fmt::format("{}.boxes", b));
      const int64_t skipped = static_cast<int64_t>(output.layers.size()) - all_logits.dim(0);
      ASSERT_EQ(skipped, variant.starts_with("detr") ? std::ssize(output.layers) - 1 : 0);
      std::vector<std::vector<int64_t>> order;
      if (variant == "two_stage")
        order = matching_queries(output.layers.back().logits.value(),
                                 all_logits.select(0, all_logits.dim(0) - 1).contiguous());
      for (int64_t l = 0; l < all_logits.dim(0); ++l) {
        const LayerPrediction& layer = output.layers[static_cast<size_t>(skipped + l)];
        Tensor our_logits = layer.logits.value(), our_boxes = layer.boxes.value();
        if (!order.empty()) {
          our_logits = in_order(our_logits, order);
          our_boxes = in_order(our_boxes, order);
        }
        logits = std::max(logits, difference(our_logits, all_logits.select(0, l).contiguous()));
        boxes = std::max(boxes, difference(our_boxes, all_boxes.select(0, l).contiguous()));
      }
    }
    EXPECT_LE(logits, 1e-4);
    EXPECT_LE(boxes, 1e-4);
    fmt::print("{}{}: logits differ by at most {:.1e}, boxes by {:.1e}\n", variant, suffix, logits, boxes);
  }
  EXPECT_GT(files, 0);
}

INSTANTIATE_TEST_SUITE_P(Detectors, Transformers,
                         testing::Values("single_scale", "single_scale_dc5", "multi_scale", "refine",
                                         "two_stage", "detr_sine", "detr_learned"),
                         [](const auto& variant) { return std::string(variant.param); });

}  // namespace
}  // namespace saccade
