// The published Deformable DETR weights on COCO's val2017/000000039769.jpg: the first three queries' first
// three logits and box numbers that transformers' conversion script asserts
// (convert_deformable_detr_to_pytorch.py). The files are not ours to ship; docs/official_checkpoints.md says
// where they are and how to run this.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "autograd/scope.h"
#include "data/images/image.h"
#include "models/build.h"
#include "train/checkpoints/infer_config.h"
#include "train/checkpoints/init_from.h"
#include "train/commands/predict_files.h"
#include "train/config/options.h"
#include "train/inference/model_input.h"

namespace saccade {
namespace {

using Rows = std::array<std::array<double, 3>, 3>;

struct Published {
  const char* name;
  Rows logits, boxes;
};

const Published kPublished[] = {
    {"multi_scale",
     {{{-9.6645, -4.3449, -5.8705}, {-9.7035, -3.8504, -5.0724}, {-10.5634, -5.3379, -7.5116}}},
     {{{0.8693, 0.2289, 0.2492}, {0.3150, 0.5489, 0.5845}, {0.5563, 0.7580, 0.8518}}}},
    {"single_scale",
     {{{-9.9051, -4.2541, -6.4852}, {-9.6947, -4.0854, -6.8033}, {-10.0665, -5.8470, -7.7003}}},
     {{{0.7292, 0.4991, 0.5532}, {0.7959, 0.2426, 0.4236}, {0.7582, 0.3518, 0.4451}}}},
    {"single_scale_dc5",
     {{{-8.9652, -4.1074, -5.6635}, {-9.0596, -4.9447, -6.6075}, {-10.1178, -4.5275, -6.2671}}},
     {{{0.7665, 0.4130, 0.4769}, {0.8364, 0.1841, 0.3391}, {0.6261, 0.3895, 0.7978}}}},
    {"refine",
     {{{-8.8895, -5.4187, -6.8153}, {-8.4706, -6.1668, -7.6184}, {-9.0042, -5.5359, -6.9141}}},
     {{{0.7828, 0.2208, 0.4323}, {0.0892, 0.5996, 0.1319}, {0.5524, 0.6389, 0.8914}}}},
    {"two_stage",
     {{{-6.7108, -4.3213, -6.3777}, {-8.9014, -6.1799, -6.7240}, {-6.9315, -4.4735, -6.2298}}},
     {{{0.2583, 0.5499, 0.4683}, {0.7652, 0.9068, 0.4882}, {0.5490, 0.2763, 0.0564}}}},
};

class OfficialCheckpoint : public testing::TestWithParam<Published> {};

TEST_P(OfficialCheckpoint, GivesThePublishedNumbers) {
  const char* folder = std::getenv("SACCADE_OFFICIAL_CHECKPOINTS");
  if (!folder)
    GTEST_SKIP() << "SACCADE_OFFICIAL_CHECKPOINTS names no folder (see docs/official_checkpoints.md)";
  const std::string path = std::string(folder) + "/" + GetParam().name + ".pth";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  auto file = open_weights(path);
  OfficialWeights weights = official_weights(*file);
  auto inferred = infer_config(*file, weights);
  ASSERT_TRUE(inferred.has_value());
  const Config config = resolve_config(inferred->config);
  auto model = build_as<Detector>(model_args(config), config.model().num_classes(), criterion_args(config));
  EXPECT_TRUE(fill_model(*file, weights, *model).missing.empty());
  model->set_training(false);

  Batch batch = one_image_batch(read_image(std::string(folder) + "/000000039769.jpg"), config);
  NoGrad no_grad;
  DetectorOutput output = model->forward(detector_input(batch, image_normalization(config)));
  // The constants have four digits and come from another machine's f32.
  constexpr double kTolerance = 5e-4;
  for (int64_t q = 0; q < 3; ++q) {
    auto logits = output.layers.back().logits.value().select(0, 0).select(0, q).to_vector<float>();
    auto boxes = output.layers.back().boxes.value().select(0, 0).select(0, q).to_vector<float>();
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(logits[k], GetParam().logits[static_cast<size_t>(q)][k], kTolerance) << "query " << q;
      EXPECT_NEAR(boxes[k], GetParam().boxes[static_cast<size_t>(q)][k], kTolerance) << "query " << q;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DeformableDetr, OfficialCheckpoint, testing::ValuesIn(kPublished),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace saccade
