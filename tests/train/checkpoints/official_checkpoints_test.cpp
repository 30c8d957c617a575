// Tests the published weights of Deformable DETR, RT-DETR and D-FINE on COCO's val2017/000000039769.jpg: the
// first three queries' first three logits and box numbers that transformers' conversion scripts assert
// (convert_deformable_detr_to_pytorch.py, convert_rt_detr_original_pytorch_checkpoint_to_hf.py and D-FINE's),
// and what its tests assert about RF-DETR and LW-DETR. The files are not ours to ship;
// docs/official_checkpoints.md says where they are and how to run this.
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
    {"dfine_n_coco",
     {{{-3.7827945, -5.0889463, -4.8341026},
       {-5.3046904, -6.2801714, -2.9276395},
       {-4.497901, -5.2670407, -6.2380104}}},
     {{{0.73334837, 0.4270624, 0.39424777},
       {0.1680235, 0.1988639, 0.21031213},
       {0.25370035, 0.5534435, 0.48496848}}}},
    {"dfine_s_coco",
     {{{-3.8097816, -4.7724586, -5.994499},
       {-5.2974715, -9.499067, -6.1653666},
       {-5.3502765, -3.9530406, -6.3630295}}},
     {{{0.7677696, 0.41479152, 0.46441072},
       {0.16912134, 0.19869131, 0.2123824},
       {0.2581653, 0.54818195, 0.47512347}}}},
    {"dfine_m_coco",
     {{{-4.5187078, -4.71708, -4.117749},
       {-4.513984, -4.937715, -3.829125},
       {-4.830042, -6.931682, -3.1740026}}},
     {{{0.25851426, 0.5489963, 0.4757598},
       {0.769683, 0.41411665, 0.45988125},
       {0.16866133, 0.19921188, 0.21207744}}}},
    {"dfine_l_coco",
     {{{-4.068779, -5.169955, -4.339212},
       {-3.9461594, -5.0279613, -4.0161457},
       {-4.218292, -6.196324, -5.175245}}},
     {{{0.2564867, 0.5489948, 0.4748876},
       {0.7693534, 0.4138953, 0.4598034},
       {0.16875696, 0.19875404, 0.21196914}}}},
    {"dfine_x_coco",
     {{{-4.844723, -4.7293096, -4.5971327},
       {-4.554266, -4.61723, -4.627926},
       {-4.3934402, -4.6064143, -4.139952}}},
     {{{0.2565248, 0.5477609, 0.47644863},
       {0.7690029, 0.41423926, 0.46148556},
       {0.1688096, 0.19923759, 0.21118002}}}},
    {"dfine_m_obj2coco",
     {{{-4.520666, -7.6678333, -5.739887},
       {-4.5053635, -7.510611, -5.452532},
       {-4.70348, -5.6098466, -5.0199957}}},
     {{{0.2567608, 0.5485795, 0.4767465},
       {0.77035284, 0.41236404, 0.4580645},
       {0.5498525, 0.27548885, 0.05886984}}}},
    {"dfine_l_obj2coco_e25",
     {{{-3.6098495, -6.633563, -5.1227236},
       {-3.682696, -6.9178205, -5.414557},
       {-4.491674, -6.0823426, -4.5718226}}},
     {{{0.7697078, 0.41368833, 0.45879585},
       {0.2573691, 0.54856044, 0.47715297},
       {0.16895264, 0.19871138, 0.2115552}}}},
    {"dfine_x_obj2coco",
     {{{-4.230433, -6.6295037, -4.8339615},
       {-4.085411, -6.3280816, -4.695468},
       {-3.8968022, -6.336813, -4.67051}}},
     {{{0.25707328, 0.54842496, 0.47624254},
       {0.76967394, 0.41272867, 0.45970756},
       {0.16882066, 0.19918433, 0.2112098}}}},
    {"dfine_m_obj365",
     {{{-5.770525, -3.1610885, -5.2807794},
       {-5.7809954, -3.768266, -5.1146393},
       {-6.180705, -3.7357295, -3.1651964}}},
     {{{0.2529114, 0.5526663, 0.48270613},
       {0.7712474, 0.41294736, 0.457174},
       {0.5497157, 0.27588123, 0.05813372}}}},
    {"dfine_l_obj365",
     {{{-5.7953215, -3.4901116, -5.4394145},
       {-5.7032104, -3.671125, -5.76121},
       {-6.09466, -3.1512096, -4.285499}}},
     {{{0.7693825, 0.41265628, 0.4606362},
       {0.25306237, 0.55187637, 0.4832178},
       {0.16892478, 0.19880727, 0.21115331}}}},
    {"dfine_x_obj365",
     {{{-6.3844957, -3.7549126, -4.6873264},
       {-5.8433194, -3.4490552, -3.3228905},
       {-6.5314736, -3.7856622, -4.895984}}},
     {{{0.7703046, 0.41329497, 0.45932162},
       {0.16898105, 0.19876392, 0.21050783},
       {0.25134972, 0.5517619, 0.4864124}}}},
};

// For RF-DETR and LW-DETR: the first numbers of all logits, boxes and mask logits, one after another.
struct FirstNumbers {
  const char* name;
  std::vector<double> logits, boxes, masks;
};
const FirstNumbers kFirstNumbers[] = {
    {"rf-detr-base", {-7.589, -4.641, -10.021, -5.659, -9.834}, {.25457, .54871, .48585, .86988, .16926}, {}},
    {"rf-detr-seg-small",
     {-7.3531, -5.1408, -9.6358, -10.8192, -8.3615},
     {.25602, .54813, .48043, .87045, .77213},
     {-13.137, -13.083, -13.906, -13.883, -13.717}},
    {"lwdetr_tiny",
     {-7.76931, -4.12702, -2.90175, -4.06055, -2.95753},
     {.16942, .19788, .21209, .09115, .25367},
     {}},
    {"lwdetr_xlarge",
     {-11.92917, -4.33070, -4.40749, -5.02067, -6.92108},
     {.76880, .41065, .46179, .72450, .25261},
     {}},
};

// Returns the folder's file of this name, or "" if it does not exist.
std::string official_file(const std::string& name) {
  const char* folder = std::getenv("SACCADE_OFFICIAL_CHECKPOINTS");
  const std::string path = folder ? fmt::format("{}/{}.pth", folder, name) : "";
  return std::filesystem::exists(path) ? path : "";
}

// Returns the last layer's output for the photograph next to the file.
LayerPrediction prediction_of(const std::string& path, const std::vector<std::string>& sets = {}) {
  auto file = open_weights(path);
  OfficialWeights weights = official_weights(*file);
  auto inferred = infer_config(*file, weights);
  if (!inferred) fail_input("{}: no detector", path);
  for (const std::string& set : sets) apply_set(inferred->config, set);
  const Config config = resolve_config(inferred->config);
  auto model = build_as<Detector>(model_args(config), config.model().num_classes(), criterion_args(config));
  EXPECT_TRUE(fill_model(*file, weights, *model).missing.empty());
  model->set_training(false);

  const std::string image = std::filesystem::path(path).parent_path() / "000000039769.jpg";
  const PredictInput input{image, "", ""};
  Batch batch = batch_of({{&input, read_image(input.path)}}, config);
  NoGrad no_grad;
  return set_output(*model->forward(detector_input(batch, image_normalization(config)))).layers.back();
}

constexpr const char* kNoFile =
    "not in the folder that SACCADE_OFFICIAL_CHECKPOINTS names (see docs/official_checkpoints.md)";

class OfficialCheckpoint : public testing::TestWithParam<Published> {};

TEST_P(OfficialCheckpoint, GivesThePublishedNumbers) {
  const std::string path = official_file(GetParam().name);
  if (path.empty()) GTEST_SKIP() << kNoFile;
  const LayerPrediction output = prediction_of(path);
  // The constants have few digits and come from another machine's f32.
  const std::string name = GetParam().name;
  const bool is_of_rt_detr = name.starts_with("rtdetr") || name.starts_with("dfine");
  const double tolerance = is_of_rt_detr ? 1e-3 : 5e-4;
  for (int64_t q = 0; q < 3; ++q) {
    auto logits = output.logits.value().select(0, 0).select(0, q).to_vector<float>();
    auto boxes = output.boxes.value().select(0, 0).select(0, q).to_vector<float>();
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(logits[k], GetParam().logits[static_cast<size_t>(q)][k], tolerance) << "query " << q;
      EXPECT_NEAR(boxes[k], GetParam().boxes[static_cast<size_t>(q)][k], tolerance) << "query " << q;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Published, OfficialCheckpoint, testing::ValuesIn(kPublished),
                         [](const auto& p) { return std::string(p.param.name); });

// transformers resizes without antialiasing.
TEST(OfficialCheckpoints, OfRfDetrAndLwDetrBeginWithThePublishedNumbers) {
  bool some = false;
  for (const FirstNumbers& published : kFirstNumbers) {
    const std::string path = official_file(published.name);
    if (path.empty()) continue;
    some = true;
    SCOPED_TRACE(path);
    const LayerPrediction output = prediction_of(path, {"data.interpolation=four_pixels"});
    for (const auto& [ours, theirs] : {std::pair(&output.logits, &published.logits),
                                       {&output.boxes, &published.boxes},
                                       {&output.masks, &published.masks}}) {
      if (theirs->empty()) continue;
      const auto values = ours->value().contiguous().to_vector<float>();
      for (size_t i = 0; i < theirs->size(); ++i) EXPECT_NEAR(values[i], (*theirs)[i], 5e-3) << i;
    }
  }
  if (!some) GTEST_SKIP() << kNoFile;
}

}  // namespace
}  // namespace saccade
