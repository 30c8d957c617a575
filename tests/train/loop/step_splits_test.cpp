// However a step's images are cut into batches (train.accumulate) and distributed to ranks, the step equals
// that of one large batch: its loss, every part of it, the gradient's norm and every mean that is logged; for
// every class loss, with all kinds of queries, and for classifiers.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

#include "models/detection/class_loss.h"
#include "tests/run_command.h"
#include "tests/train/program.h"

namespace saccade {
namespace {

struct Split {
  int ranks, batch, accumulate;
};
constexpr Split kWhole{1, 8, 1};
constexpr Split kSplits[] = {{1, 4, 2}, {1, 1, 8}, {2, 4, 2}, {4, 8, 1}};

struct SplitCase {
  std::string name, type, transformer, criterion, flags = {};
};
void PrintTo(const SplitCase& c, std::ostream* out) { *out << c.name; }

// 3 queries are too few for some images. Denoising makes as many groups as the image with the most objects
// allows.
std::vector<SplitCase> split_cases() {
  std::vector<SplitCase> cases;
  for (const auto& [loss, spec] : class_losses().all())
    cases.push_back({loss, "deformable_detr",
                     "levels: 2 queries: 8 denoising { queries: 10 } } deformable_detr { box_refine: true",
                     fmt::format("class_loss: {}", loss)});
  for (const char* loss : {"softmax", "focal"}) {
    const std::string criterion = fmt::format("class_loss: {} extra_group_repeat: 2 ", loss);
    cases.push_back({fmt::format("{}_of_detr_with_few_queries", loss), "detr", "queries: 3", criterion});
    cases.push_back({fmt::format("{}_in_groups", loss), "deformable_detr",
                     "levels: 2 queries: 3 extra_query_groups: 2", criterion});
    cases.push_back({fmt::format("{}_of_proposals", loss), "deformable_detr",
                     "levels: 2 queries: 8 } deformable_detr { box_refine: true two_stage: true", criterion});
  }
  cases.push_back({"dino", "dino", "levels: 4 queries: 8 denoising { queries: 10 }", ""});
  // The norms of their encoders use batch statistics where they are trained.
  cases.push_back({"rt_detr", "rt_detr",
                   "levels: 3 queries: 8 denoising { queries: 10 } } rt_detr { hybrid_encoder { dim: 16 "
                   "ffn_dim: 16 }",
                   "", "--freeze '^(encoder|decoder.input_proj)'"});
  cases.push_back({"d_fine", "d_fine",
                   "queries: 8 denoising { queries: 10 } } d_fine { hybrid_encoder { dim: 16 ffn_dim: 16 } "
                   "fusion_blocks: 1 bins: 8",
                   "", "--freeze '^encoder'"});
  for (const char* type : {"lw_detr", "rf_detr_seg"})
    cases.push_back({fmt::format("{}_in_groups", type), type,
                     "queries: 3 extra_query_groups: 2 } lw_detr { cross_heads: 4 projector_blocks: 1 "
                     "projector_norm: \"layer\"",
                     ""});
  cases.push_back({"retinanet", "retinanet", "", ""});
  cases.push_back({"mask_rcnn", "mask_rcnn", "", ""});
  cases.push_back({"cascade_mask_rcnn", "cascade_mask_rcnn", "", ""});
  cases.push_back({"classifier", "classifier", "", ""});
  cases.push_back({"uper_net", "uper_net", "", "mean_over_labelled: true", "--freeze bn"});
  return cases;
}

bool has_no_encoder(const SplitCase& c) { return c.type == "lw_detr" || c.type == "rf_detr_seg"; }

std::string split_config(const SplitCase& c) {
  const bool classifies = c.type == "classifier";
  return fmt::format(
      "model {{ type: \"{}\" backbone {{ blocks: [1, 1, 1, 1] width: 8 frozen_stages: 0 {} }} {} }}\n{}\n"
      "data {{ train {{ {} }} workers: 0 augment {{ height: 64 width: 64 }} val_height: 64 val_width: 64 }}\n"
      "optimizer {{ type: \"sgd\" learning_rate: 1e-4 }} train {{ max_steps: 2 log_every: 1 }}\n",
      c.type,
      c.type == "deformable_detr" ? "outputs: [3, 4]"
      : has_no_encoder(c)         ? "type: \"resnet\""
                                  : "",
      classifies              ? ""
      : c.type == "retinanet" ? "retinanet { channels: 16 tower_layers: 1 }"
      : c.type.ends_with("mask_rcnn")
          ? "rcnn { channels: 16 head_dim: 16 mask_channels: 8 mask_layers: 1 samples: 32 proposals: 64 }"
      : c.type == "uper_net"
          ? "uper_net { channels: 16 auxiliary_channels: 8 dropout: 0 }"
          : fmt::format("transformer {{ hidden_dim: 16 heads: 2 encoder_layers: {} decoder_layers: 2 "
                        "ffn_dim: 16 dropout: 0 {} }}",
                        has_no_encoder(c) ? 0 : 1, c.transformer),
      classifies ? "" : fmt::format("criterion {{ {} }}", c.criterion),
      classifies             ? "images: \"split_classes\""
      : c.type == "uper_net" ? "annotations: \"splits/label_maps\" images: \"splits/images\""
                             : "annotations: \"splits/annotations.json\" images: \"splits/images\"");
}

// The numbers of all training lines by name, without times and memory.
using Logged = std::map<std::string, std::vector<double>>;

Logged logged_means(const fs::path& run) {
  Logged out;
  simdjson::dom::parser parser;
  simdjson::dom::document_stream lines;
  const std::string text = read_bytes(run / "metrics.jsonl");
  EXPECT_EQ(parser.parse_many(text).get(lines), simdjson::SUCCESS);
  for (auto line : lines) {
    simdjson::dom::object fields;
    EXPECT_EQ(line.get(fields), simdjson::SUCCESS);
    for (const auto& [key, value] : fields) {
      const std::string name(key);
      double number = 0;
      if (name.ends_with("_ms") || name.ends_with("_mb") || name.ends_with("_s") || name == "epoch" ||
          name == "images_per_second" || value.get(number) != simdjson::SUCCESS)
        continue;
      out[name].push_back(number);
    }
  }
  return out;
}

class StepSplits : public testing::TestWithParam<SplitCase> {
 protected:
  void SetUp() override {
    write_bytes(scratch() / "split.textproto", split_config(GetParam()));
    if (fs::exists(scratch() / "splits")) return;
    expect_works("data shapes --output splits --images 16 --seed 5 --size 64");
    ASSERT_EQ(
        run_script(
            "mkdir -p split_classes/a split_classes/b split_classes/c; i=0; for f in splits/images/*; do\n"
            "i=$((i + 1)); case $((i % 5)) in 0) d=a;; 1 | 2) d=b;; *) d=c;; esac; cp $f split_classes/$d; done")
            .status,
        0);
  }
  static Logged train(const Split& s) {
    const Result r = run_ranks(fmt::format(
        "rm -rf split\nOMP_NUM_THREADS=1 timeout -k 5 60 \"$S\" train --config split.textproto --output split "
        "--quiet --trial-batch off --set data.batch_size={} --set train.accumulate={} {} {}",
        s.batch, s.accumulate, GetParam().flags, s.ranks > 1 ? fmt::format("--processes {}", s.ranks) : ""));
    EXPECT_EQ(r.status, 0) << r.err;
    return logged_means(scratch() / "split");
  }
};

TEST_P(StepSplits, AreTheStepOfOneLargeBatch) {
  const Logged whole = train(kWhole);
  for (const char* name : {"loss", "loss_class", "gradient_norm"}) ASSERT_TRUE(whole.contains(name)) << name;
  ASSERT_TRUE(whole.contains(GetParam().type == "classifier"          ? "top1"
                             : GetParam().type.ends_with("mask_rcnn") ? "loss_mask"
                             : GetParam().type == "retinanet"         ? "positive_anchors"
                             : GetParam().type == "uper_net"          ? "loss_auxiliary"
                                                                      : "class_error"));
  const bool has_ranks = run_script("command -v mpirun").status == 0;
  for (const Split& s : kSplits) {
    if (s.ranks > 1 && !has_ranks) continue;
    SCOPED_TRACE(fmt::format("{} ranks, {} batches of {}", s.ranks, s.accumulate, s.batch));
    const Logged parts = train(s);
    for (const auto& [name, values] : whole) {
      ASSERT_TRUE(parts.contains(name)) << name;
      const std::vector<double>& others = parts.at(name);
      ASSERT_EQ(others.size(), values.size()) << name;
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(others[i], values[i], 1e-5 * std::max(std::fabs(values[i]), 1e-3))
            << name << ", step " << i;
    }
    for (const auto& [name, values] : parts) EXPECT_TRUE(whole.contains(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, StepSplits, testing::ValuesIn(split_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace saccade
