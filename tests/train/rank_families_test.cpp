// Models of every family are trained by 1, 2 and 4 processes, with the same losses. SACCADE_RANK_STEPS in the
// environment trains longer, from SACCADE_RANK_SEED, and prints the differences, for the table of
// docs/scaling.md (scripts/experiments/rank_curves.sh).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ostream>
#include <random>

#include "core/tensor/philox.h"
#include "data/images/image.h"
#include "tests/run_command.h"
#include "tests/train/program.h"

namespace saccade {
namespace {

struct RankFamily {
  const char* name;
  std::string model;
  bool is_classifier = false;
  bool is_for_long_runs = false;  // another family has its parts
};
void PrintTo(const RankFamily& family, std::ostream* out) { *out << family.name; }

const std::string kResnetBackbone =
    "backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 ";
const std::string kDatBackbone =
    R"(backbone { type: "dat" arg { key: "blocks" string: "L S D D" } arg { key: "dims" ints: [8, 8, 16, 16] }
    arg { key: "heads" ints: [1, 1, 2, 2] } arg { key: "groups" ints: [1, 1, 1, 2] } arg { key: "window" int: 4 }
    arg { key: "image_size" int: 64 } arg { key: "drop_path" float: 0.1 } )";
const std::string kSwinBackbone =
    R"(backbone { type: "swin" arg { key: "embed_dim" int: 8 } arg { key: "depths" ints: [2, 2, 2, 2] }
    arg { key: "heads" ints: [1, 1, 2, 2] } arg { key: "window" int: 4 } arg { key: "drop_path" float: 0.1 } )";
const std::string kVitBackbone =
    R"(backbone { type: "vit" arg { key: "patch" int: 16 } arg { key: "dim" int: 16 } arg { key: "depth" int: 2 }
    arg { key: "heads" int: 2 } arg { key: "image_size" int: 64 } arg { key: "drop_path" float: 0.1 } )";
const std::string kDinoV2Backbone =
    R"(backbone { type: "dinov2" arg { key: "patch" int: 8 } arg { key: "dim" int: 16 } arg { key: "depth" int: 2 }
    arg { key: "heads" int: 2 } arg { key: "image_size" int: 64 } arg { key: "windows" int: 2 }
    arg { key: "windowed_blocks" ints: [0] } outputs: [1, 2] )";
const std::string kFewLayers =
    "hidden_dim: 16 heads: 2 decoder_layers: 2 ffn_dim: 16 queries: 8 dropout: 0.1 ";
const std::string kSmall =
    "hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 2 ffn_dim: 16 queries: 8 dropout: 0.1 ";

const RankFamily kFamilies[] = {
    {"deformable_detr", kResnetBackbone + "outputs: [3, 4] } transformer { levels: 3 " + kSmall +
                            "} deformable_detr { box_refine: true two_stage: true }"},
    {"detr", "type: \"detr\" " + kResnetBackbone + "} transformer { " + kSmall + "}"},
    {"dino", "type: \"dino\" " + kResnetBackbone + "} transformer { levels: 4 denoising { queries: 4 } " +
                 kSmall + "}"},
    {"rt_detr", "type: \"rt_detr\" " + kResnetBackbone +
                    "variant: \"d\" outputs: [2, 3, 4] } transformer { levels: 3 " + kSmall +
                    " denoising { queries: 4 } } rt_detr { hybrid_encoder { dim: 16 ffn_dim: 16 } }"},
    {"d_fine", "type: \"d_fine\" " + kResnetBackbone + "outputs: [2, 3, 4] } transformer { levels: 3 " +
                   kSmall +
                   " denoising { queries: 4 } } d_fine { hybrid_encoder { dim: 16 ffn_dim: 16 } "
                   "fusion_blocks: 1 bins: 8 }"},
    {"rf_detr", "type: \"rf_detr\" " + kDinoV2Backbone + "} transformer { extra_query_groups: 2 " +
                    kFewLayers + "} lw_detr { cross_heads: 4 projector_blocks: 1 }"},
    {"retinanet", "type: \"retinanet\" " + kResnetBackbone + "} retinanet { channels: 16 tower_layers: 1 }"},
    // The norms in its heads are over the regions of all processes.
    {"cascade_mask_rcnn",
     "type: \"cascade_mask_rcnn\" " + kResnetBackbone +
         "} rcnn { channels: 16 head_dim: 16 mask_channels: 8 mask_layers: 1 samples: 32 "
         "proposals: 64 head_convs: 1 head_layers: 1 class_agnostic: false "
         "bbox_loss: \"giou\" }"},
    {"semantic_fpn", "type: \"semantic_fpn\" " + kResnetBackbone +
                         "outputs: [1, 2, 3, 4] } semantic_fpn { channels: 16 head_channels: 16 }"},
    {"deformable_detr on DAT", kDatBackbone + "outputs: [2, 3, 4] } transformer { levels: 3 " + kSmall + "}"},
    {"deformable_detr on Swin",
     kSwinBackbone + "outputs: [2, 3, 4] } transformer { levels: 3 " + kSmall + "}", false, true},
    {"ResNet classifier", kResnetBackbone + "}", true, true},
    {"DAT classifier", kDatBackbone + "}", true},
    {"Swin classifier", kSwinBackbone + "}", true},
    {"ViT classifier", kVitBackbone + "}", true, true},
};

// A long run warms up as the published recipes do. At the full rate from the first step Adam makes as large a
// step where a gradient is mere rounding as elsewhere, and runs that differ in a last digit part; three steps
// are too few for it, and tell more at that rate.
std::string config_of(const RankFamily& family, int steps, const std::string& seed) {
  const std::string data =
      family.is_classifier
          ? R"(data { train { images: "rank_classes" } mix { mixup_alpha: 0.8 cutmix_alpha: 1 } )"
          : R"(data { train { annotations: "ranks8/annotations.json" images: "ranks8/images" } )";
  return fmt::format(
      "model {{ {} {} }}\n{} batch_size: 4 workers: 1 augment {{ height: 64 width: 64 {} }} "
      "val_height: 64 val_width: 64 }}\n"
      "optimizer {{ learning_rate: 1e-4 }}\nschedule {{ warmup_steps: {} }}\nseed: {}\n"
      "train {{ max_steps: {} log_every: 1 ema_decay: 0.9 }}\n",
      family.is_classifier ? "type: \"classifier\"" : "", family.model, data,
      family.is_classifier ? "crop_area_min: 0.5" : "scale_min: 0.6 scale_max: 1.2", steps > 3 ? 200 : 0,
      seed, steps);
}

// Adds grain as in photographs. In drawn images whole backgrounds have one colour, so that all their cells
// cross a ReLU's zero at once.
void add_grain(const fs::path& file) {
  Image image = read_image(file);
  std::mt19937 random(static_cast<unsigned>(hash_name(file.filename().string())));
  for (uint8_t& value : image.rgb)
    value = static_cast<uint8_t>(std::clamp(value + static_cast<int>(random() % 33) - 16, 0, 255));
  write_png(image, file);
}

class RankFamilies : public testing::TestWithParam<RankFamily> {
 protected:
  void SetUp() override {
    if (run_script("command -v mpirun").status != 0) GTEST_SKIP() << "mpirun is not installed";
    if (fs::exists(scratch() / "ranks8")) return;
    expect_works("data shapes --output ranks8 --images 8 --seed 3 --size 64");
    for (const auto& file : fs::directory_iterator(scratch() / "ranks8/images")) add_grain(file.path());
    ASSERT_EQ(
        run_script("mkdir -p rank_classes/a rank_classes/b; i=0; for f in ranks8/images/*; do\n"
                   "i=$((i + 1)); [ $((i % 2)) = 0 ] && cp $f rank_classes/a || cp $f rank_classes/b; done")
            .status,
        0);
  }
};

std::vector<double> losses_by(int ranks) {
  const Result r =
      run_ranks(fmt::format("rm -rf family\nOMP_NUM_THREADS=1 timeout -k 5 300 \"$S\" train "
                            "--config family.textproto --output family --quiet --trial-batch off {}",
                            ranks > 1 ? fmt::format("--processes {}", ranks) : ""));
  EXPECT_EQ(r.status, 0) << r.err;
  return losses_of((scratch() / "family").string());
}

double largest_difference(const std::vector<double>& some, const std::vector<double>& others) {
  double largest = 0;
  for (size_t i = 0; i < some.size(); ++i)
    largest = std::max(largest, std::fabs(some[i] - others[i]) / std::fabs(others[i]));
  return largest;
}

TEST_P(RankFamilies, AnyNumberOfRanksGivesTheLossesOfOne) {
  const char *text = std::getenv("SACCADE_RANK_STEPS"), *seed = std::getenv("SACCADE_RANK_SEED");
  const int steps = text ? std::atoi(text) : 3;
  write_bytes(scratch() / "family.textproto", config_of(GetParam(), steps, seed ? seed : "42"));
  const std::vector<double> first = losses_by(1);
  ASSERT_EQ(first.size(), static_cast<size_t>(steps));
  std::string row = fmt::format("| {} |", GetParam().name);
  for (const int ranks : {2, 4}) {
    const std::vector<double> losses = losses_by(ranks);
    ASSERT_EQ(losses.size(), first.size());
    const double difference = largest_difference(losses, first);
    EXPECT_LE(difference, 1e-5) << ranks << " ranks";
    row += fmt::format(" {:.1e} |", difference);
  }
  if (text) fmt::print("{}\n", row);
}

// Returns the families of a normal run, of one with a sanitizer, or of a long one.
std::vector<RankFamily> chosen_families() {
  std::vector<RankFamily> out;
  for (const RankFamily& family : kFamilies)
    if (std::getenv("SACCADE_RANK_STEPS") || (!family.is_for_long_runs && !std::getenv("SACCADE_FAST")))
      out.push_back(family);
  if (out.empty()) out.push_back(kFamilies[0]);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, RankFamilies, testing::ValuesIn(chosen_families()), [](const auto& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

}  // namespace
}  // namespace saccade
