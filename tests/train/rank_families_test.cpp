// Models of every family by 1, 2 and 4 processes: the same losses. SACCADE_RANK_STEPS in the environment trains longer and prints the
// differences, for the table of docs/scaling.md (scripts/rank_curves.sh).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ostream>

#include "tests/run_command.h"
#include "tests/train/program.h"

namespace saccade {
namespace {

struct RankFamily {
  const char* name;
  std::string model;
  bool is_classifier = false;
  bool is_for_long_runs = false;  // another one has its parts
};
void PrintTo(const RankFamily& family, std::ostream* out) { *out << family.name; }

const std::string kResnet =
    "backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 ";
const std::string kDat =
    R"(backbone { type: "dat" arg { key: "blocks" string: "L S D D" } arg { key: "dims" ints: [8, 8, 16, 16] }
    arg { key: "heads" ints: [1, 1, 2, 2] } arg { key: "groups" ints: [1, 1, 1, 2] } arg { key: "window" int: 4 }
    arg { key: "image_size" int: 64 } arg { key: "drop_path" float: 0.1 } )";
const std::string kSwin =
    R"(backbone { type: "swin" arg { key: "embed_dim" int: 8 } arg { key: "depths" ints: [2, 2, 2, 2] }
    arg { key: "heads" ints: [1, 1, 2, 2] } arg { key: "window" int: 4 } arg { key: "drop_path" float: 0.1 } )";
const std::string kVit =
    R"(backbone { type: "vit" arg { key: "patch" int: 16 } arg { key: "dim" int: 16 } arg { key: "depth" int: 2 }
    arg { key: "heads" int: 2 } arg { key: "image_size" int: 64 } arg { key: "drop_path" float: 0.1 } )";
const std::string kSmall =
    "hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 2 ffn_dim: 16 queries: 8 dropout: 0.1 ";

const RankFamily kFamilies[] = {
    {"deformable_detr",
     kResnet + "outputs: [3, 4] } transformer { levels: 3 box_refine: true two_stage: true " + kSmall + "}"},
    {"detr", "type: \"detr\" " + kResnet + "} transformer { " + kSmall + "}"},
    {"dino",
     "type: \"dino\" " + kResnet + "} transformer { levels: 4 denoising { queries: 4 } " + kSmall + "}"},
    {"rt_detr", "type: \"rt_detr\" " + kResnet +
                    "variant: \"d\" outputs: [2, 3, 4] } transformer { levels: 3 " + kSmall +
                    "hybrid_encoder { dim: 16 ffn_dim: 16 } denoising { queries: 4 } }"},
    {"deformable_detr on DAT", kDat + "outputs: [2, 3, 4] } transformer { levels: 3 " + kSmall + "}"},
    {"deformable_detr on Swin", kSwin + "outputs: [2, 3, 4] } transformer { levels: 3 " + kSmall + "}", false,
     true},
    {"ResNet classifier", kResnet + "}", true, true},
    {"DAT classifier", kDat + "}", true},
    {"Swin classifier", kSwin + "}", true},
    {"ViT classifier", kVit + "}", true, true},
};

std::string config_of(const RankFamily& family, int steps) {
  const std::string data =
      family.is_classifier
          ? R"(data { train { images: "rank_classes" } mix { mixup_alpha: 0.8 cutmix_alpha: 1 } )"
          : R"(data { train { annotations: "ranks8/annotations.json" images: "ranks8/images" } )";
  return fmt::format(
      "model {{ {} {} }}\n{} batch_size: 4 workers: 1 augment {{ height: 64 width: 64 {} }} "
      "val_height: 64 val_width: 64 }}\n"
      "optimizer {{ learning_rate: 1e-4 }}\ntrain {{ max_steps: {} log_every: 1 ema_decay: 0.9 }}\n",
      family.is_classifier ? "type: \"classifier\"" : "", family.model, data,
      family.is_classifier ? "crop_area_min: 0.5" : "scale_min: 0.6 scale_max: 1.2", steps);
}

class RankFamilies : public testing::TestWithParam<RankFamily> {
 protected:
  void SetUp() override {
    if (run_script("command -v mpirun").status != 0) GTEST_SKIP() << "mpirun is not installed";
    if (fs::exists(scratch() / "ranks8")) return;
    expect_works("data shapes --output ranks8 --images 8 --seed 3 --size 64");
    ASSERT_EQ(
        run_script("mkdir -p rank_classes/a rank_classes/b; i=0; for f in ranks8/images/*; do\n"
                   "i=$((i + 1)); [ $((i % 2)) = 0 ] && cp $f rank_classes/a || cp $f rank_classes/b; done")
            .status,
        0);
  }
};

TEST_P(RankFamilies, AnyNumberOfRanksGivesTheLossesOfOne) {
  const char* text = std::getenv("SACCADE_RANK_STEPS");
  const int steps = text ? std::atoi(text) : 3;
  write_bytes(scratch() / "family.textproto", config_of(GetParam(), steps));
  std::vector<double> first;
  std::string row = fmt::format("| {} |", GetParam().name);
  for (const int ranks : {1, 2, 4}) {
    // What Open MPI's own libraries leave behind when they are closed would make LeakSanitizer end a rank with an error.
    const Result r = run_script(fmt::format(
        "rm -rf family\nASAN_OPTIONS=${{ASAN_OPTIONS:-}}:detect_leaks=0 OMP_NUM_THREADS=1 timeout -k 5 300 \"$S\" train "
        "--config family.textproto --output family --quiet --trial-batch off {}",
        ranks > 1 ? fmt::format("--processes {}", ranks) : ""));
    ASSERT_EQ(r.status, 0) << r.err;
    const std::vector<double> losses = losses_of((scratch() / "family").string());
    ASSERT_EQ(losses.size(), static_cast<size_t>(steps));
    if (ranks == 1) first = losses;
    double largest = 0;
    for (size_t i = 0; i < losses.size(); ++i)
      largest = std::max(largest, std::fabs(losses[i] - first[i]) / std::fabs(first[i]));
    EXPECT_LE(largest, 1e-5) << ranks << " ranks";
    if (ranks > 1) row += fmt::format(" {:.1e} |", largest);
  }
  if (text) fmt::print("{}\n", row);
}

// Of a normal run, of one with a sanitizer, and of a long one.
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
