// The published weights of Deformable DETR and RT-DETR on COCO's val2017/000000039769.jpg: the first three
// queries' first three logits and box numbers that transformers' conversion script asserts
// (convert_deformable_detr_to_pytorch.py, convert_rt_detr_original_pytorch_checkpoint_to_hf.py). The files
// are not ours to ship; docs/official_checkpoints.md says where they are and how to run this.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "autograd/scope.h"
#include "data/images/image.h"
#include "models/build.h"
#include "models/detection/set_output.h"
#include "train/checkpoints/infer_config.h"
#include "train/checkpoints/init_from.h"
#include "train/config/options.h"
#include "train/inference/model_input.h"
#include "train/inference/picture_files.h"

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
    {"rtdetr_r18vd",
     {{{-4.3364253, -6.465683, -3.6130402},
       {-4.083815, -6.4039373, -6.97881},
       {-4.192215, -7.3410473, -6.9027247}}},
     {{{0.16868353, 0.19833282, 0.21182671},
       {0.25559652, 0.55121744, 0.47988364},
       {0.7698693, 0.4124569, 0.46036878}}}},
    {"rtdetr_r34vd",
     {{{-4.3727384, -4.7921476, -5.7299604},
       {-4.840536, -8.455345, -4.1745796},
       {-4.1277084, -5.2154565, -5.7852697}}},
     {{{0.258278, 0.5497808, 0.4732004},
       {0.16889669, 0.19890057, 0.21138911},
       {0.76632994, 0.4147879, 0.46851268}}}},
    {"rtdetr_r50vd",
     {{{-4.6476398, -5.001154, -4.9785104},
       {-4.1593494, -4.7038546, -5.946485},
       {-4.4374595, -4.658361, -6.2352347}}},
     {{{0.16880608, 0.19992264, 0.21225442},
       {0.76837635, 0.4122631, 0.46368608},
       {0.2595386, 0.5483334, 0.4777486}}}},
    {"rtdetr_r101vd",
     {{{-4.6162, -4.9189, -4.6656}, {-4.4701, -4.4997, -4.9659}, {-5.6641, -7.9000, -5.0725}}},
     {{{0.7707, 0.4124, 0.4585}, {0.2589, 0.5492, 0.4735}, {0.1688, 0.1993, 0.2108}}}},
    {"rtdetr_v2_r18vd",
     {{{-3.7045, -5.1913, -6.1787}, {-4.0106, -9.3450, -5.2043}, {-4.1287, -4.7463, -5.8634}}},
     {{{0.2582, 0.5497, 0.4764}, {0.1684, 0.1985, 0.2120}, {0.7665, 0.4146, 0.4669}}}},
    {"rtdetr_v2_r34vd",
     {{{-4.6108, -5.9453, -3.8505}, {-3.8702, -6.1136, -5.5677}, {-3.7790, -6.4538, -5.9449}}},
     {{{0.1691, 0.1984, 0.2118}, {0.2594, 0.5506, 0.4736}, {0.7669, 0.4136, 0.4654}}}},
    {"rtdetr_v2_r50vd_m",
     {{{-2.7453, -5.4595, -7.3702}, {-3.1858, -5.3803, -7.9838}, {-5.0293, -7.0083, -4.2888}}},
     {{{0.7711, 0.4135, 0.4577}, {0.2570, 0.5480, 0.4755}, {0.1694, 0.1992, 0.2127}}}},
    {"rtdetr_v2_r50vd",
     {{{-4.7881, -4.6754, -6.1624}, {-5.4441, -6.6486, -4.3840}, {-3.5455, -4.9318, -6.3544}}},
     {{{0.2588, 0.5487, 0.4747}, {0.5497, 0.2760, 0.0573}, {0.7688, 0.4133, 0.4634}}}},
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

  const PredictInput input{std::string(folder) + "/000000039769.jpg", "", ""};
  Batch batch = batch_of({{&input, read_image(input.path)}}, config);
  NoGrad no_grad;
  SetOutput output = set_output(*model->forward(detector_input(batch, image_normalization(config))));
  // The constants have few digits and come from another machine's f32.
  const double tolerance = std::string(GetParam().name).starts_with("rtdetr") ? 1e-3 : 5e-4;
  for (int64_t q = 0; q < 3; ++q) {
    auto logits = output.layers.back().logits.value().select(0, 0).select(0, q).to_vector<float>();
    auto boxes = output.layers.back().boxes.value().select(0, 0).select(0, q).to_vector<float>();
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(logits[k], GetParam().logits[static_cast<size_t>(q)][k], tolerance) << "query " << q;
      EXPECT_NEAR(boxes[k], GetParam().boxes[static_cast<size_t>(q)][k], tolerance) << "query " << q;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Published, OfficialCheckpoint, testing::ValuesIn(kPublished),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace saccade
