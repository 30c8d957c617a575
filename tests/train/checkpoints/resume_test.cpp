// Runs the program itself, with a real model on the synthetic shapes: two runs, a stopped one and a killed
// one end byte-equal. Also tests what may happen to a run folder: damaged and missing checkpoints, a second
// process, signals, another configuration. To add a change of the configuration: a line in kChanges.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "core/formats/safetensors.h"
#include "core/tensor/philox.h"
#include "data/images/image.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/checkpoints/run_folder.h"
#include "train/config/schema/config_changes.h"

extern char** environ;

namespace saccade {
namespace {

// Replaces SHAPES in a configuration; DIR is the test's folder.
constexpr const char* kShapesData =
    "train { annotations: \"DIR/shapes/annotations.json\" images: \"DIR/shapes/images\" } "
    "val { annotations: \"DIR/shapes/annotations.json\" images: \"DIR/shapes/images\" } batch_size: 2";

std::string config_in(const std::string& folder, std::string config) {
  for (const auto& [word, text] :
       {std::pair<std::string, std::string>{"SHAPES", kShapesData}, {"DIR", folder}})
    for (size_t at; (at = config.find(word)) != std::string::npos;) config.replace(at, word.size(), text);
  return config;
}

constexpr const char* kResumeConfig = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [3, 4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 2 ffn_dim: 16 queries: 5 levels: 3
                dropout: 0.1 } deformable_detr { box_refine: true }
}
data {
  SHAPES
  workers: 2
  augment { height: 64 width: 64 scale_min: 0.8 scale_max: 1.2 }
  val_height: 64
  val_width: 64
}
schedule { type: "cosine" warmup_steps: 3 }
train { epochs: 2 eval_every_epochs: 1 log_every: 1 checkpoint_every_steps: 3 ema_decay: 0.9 }
)";

// Everything that the published recipes of RT-DETR and DEIM use.
constexpr const char* kStrong = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [3, 4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 2 ffn_dim: 16 queries: 5 levels: 3 }
}
data {
  SHAPES
  workers: 2
  augment {
    height: 64 width: 64 photometric_distortion: 0.5 zoom_out: 0.5 iou_crop: 0.8 min_box_side: 1 mosaic: 0.5 mosaic_side: 48
    batch_mixup: 0.5 multi_scale_heights: [48, 64, 64] strong_stop_epoch: 2 mosaic_stop_epoch: 1
  }
  val_height: 64
  val_width: 64
}
schedule { type: "flat_cosine" warmup_steps: 3 warmup_shape: "quadratic" flat_epochs: 1 end_epochs: 0.5 final_ratio: 0.5 }
train { epochs: 2.5 eval_every_epochs: 1 log_every: 1 checkpoint_every_steps: 3 ema_decay: 0.99 ema_tau: 5 }
)";

// What training may use besides, all at once: drawn and grouped images, large-scale jitter, denoising,
// accumulation, recomputed and frozen parts, patience.
constexpr const char* kEverything = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 1 outputs: [3, 4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 2 decoder_layers: 2 ffn_dim: 16 queries: 5 levels: 3 dropout: 0.1
                denoising { queries: 4 } } deformable_detr { box_refine: true }
}
data {
  SHAPES
  workers: 2
  sampling: repeat_factor
  repeat_threshold: 0.9
  group_by_shape: true
  augment { height: 64 width: 96 scale_min: 0.1 scale_max: 2 pad_as_image: true min_area_ratio: 0.1 mosaic: 0.5 mosaic_side: 48
            mosaic_stop_epoch: 1 color_probability: 0.5 hue: 0.1 rotate90: 0.5 }
  val_height: 64
  val_width: 96
}
optimizer { clip_norm: 0.5 group { regex: "encoder.layers.0" frozen: true } group { regex: "backbone" lr_mult: 0.1 } }
schedule { type: "cosine" warmup_steps: 2 }
train { epochs: 3 eval_every_epochs: 1 log_every: 1 checkpoint_every_steps: 2 ema_decay: 0.9 ema_tau: 4 accumulate: 2
        recompute: "encoder.layers.1" patience: 9 }
)";

// Mask points drawn in every step, learning rates that fall from layer to layer, RF-DETR's sizes.
constexpr const char* kMasks = R"(
model {
  type: "rf_detr_seg"
  backbone { arg { key: "image_size" int: 48 } arg { key: "patch" int: 8 } arg { key: "dim" int: 16 } arg { key: "depth" int: 2 }
             arg { key: "heads" int: 2 } arg { key: "windows" int: 2 } arg { key: "windowed_blocks" ints: [0] } outputs: [1, 2] }
  transformer { hidden_dim: 16 heads: 2 decoder_layers: 2 ffn_dim: 16 queries: 5 extra_query_groups: 2 }
  lw_detr { cross_heads: 4 projector_blocks: 1 }
}
data {
  SHAPES
  workers: 2
  augment { height: 64 width: 64 stretch_crop: 0.5 crop_short_sides: [64, 80] crop_min: 40 crop_max: 60 multi_scale_heights: [48, 64]
            multi_scale_pixels: "bilinear" }
  val_height: 48
  val_width: 48
}
optimizer { no_decay_1d: true group { regex: "blocks[.]([0-9]+)[.]" lr_mult: 0.5 layer_decay: 0.8 } }
train { epochs: 2 eval_every_epochs: 1 log_every: 1 checkpoint_every_steps: 3 ema_decay: 0.9 accumulate: 2 }
)";

// Regions drawn by chance in every stage, norms over them, masks.
constexpr const char* kCascade = R"(
model {
  type: "cascade_mask_rcnn"
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 }
  rcnn { channels: 16 head_dim: 16 mask_channels: 8 mask_layers: 1 anchor_scale: 4 rpn_samples: 32 samples: 16 train_proposals: 60
         proposals: 30 head_convs: 1 head_layers: 1 class_agnostic: false bbox_loss: "giou" }
}
data {
  SHAPES
  workers: 2
  augment { height: 64 width: 64 scale_min: 0.8 scale_max: 1.2 }
  val_height: 64
  val_width: 64
}
schedule { type: "cosine" warmup_steps: 3 }
train { epochs: 2 eval_every_epochs: 1 log_every: 1 checkpoint_every_steps: 3 ema_decay: 0.9 }
)";

constexpr const char* kClassifier = R"(
model { type: "classifier" backbone { blocks: [1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 } }
criterion { label_smoothing: 0.1 }
data {
  train { images: "DIR/classes" }
  val { images: "DIR/classes" }
  batch_size: 4
  workers: 2
  sampling: class_balanced
  augment { height: 32 width: 32 crop_area_min: 0.3 brightness: 0.3 erase_probability: 0.5 }
  mix { mixup_alpha: 0.8 cutmix_alpha: 1 }
  val_height: 32
  val_width: 32
  val_crop_pct: 0.875
}
optimizer { no_decay_1d: true }
schedule { type: "cosine" warmup_epochs: 1 warmup_ratio: 0.1 }
train { epochs: 2 eval_every_epochs: 1 log_every: 1 checkpoint_every_steps: 1 ema_decay: 0.9 accumulate: 2 }
)";

// Twelve noise images of three classes.
void make_classes(const TestFolder& folder) {
  for (int i = 0; i < 12; ++i) {
    std::string name = fmt::format("classes/c{}/{}.png", i % 3, i);
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    Image image(40, 36);
    Rng rng(static_cast<uint64_t>(i));
    for (uint8_t& v : image.rgb) v = static_cast<uint8_t>(rng.next());
    write_png(image, folder / name);
  }
}

pid_t start(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "saccade");
  std::vector<char*> pointers;
  for (std::string& a : arguments) pointers.push_back(a.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, SACCADE_BINARY_DIR "/saccade", &actions, nullptr, pointers.data(), environ),
            0);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

int finish(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

struct ResumeCase {
  const char *name, *config, *precision;
};
class Resume : public testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, EndsInTheSameBits) {
  TestFolder folder;
  ASSERT_EQ(finish(start({"data", "shapes", "--output", folder / "shapes", "--images", "8", "--seed", "5"})),
            0);
  make_classes(folder);
  write_bytes(folder / "c.textproto", config_in(folder.path(), GetParam().config));
  auto train = [&](const std::string& run, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"train",
                                       "--config",
                                       folder / "c.textproto",
                                       "--output",
                                       folder / run,
                                       "--set",
                                       std::string("precision=") + GetParam().precision};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return start(arguments);
  };
  auto expect_equal = [&](const std::string& run) {
    for (const char* name : {"last", "best"}) {
      auto bytes = [&](const std::string& r) {
        return read_bytes(folder / (r + "/checkpoints/" + name + ".safetensors"));
      };
      EXPECT_FALSE(bytes(run).empty()) << run;
      EXPECT_TRUE(bytes("whole") == bytes(run)) << run << ": " << name << " differs";
    }
  };
  ASSERT_EQ(finish(train("whole")), 0);
  if (std::string(GetParam().precision) == "bf16") {
    ASSERT_EQ(finish(train("stopped", {"--max-steps", "3"})), 0);
    ASSERT_EQ(finish(train("stopped", {"--resume"})), 0);
    expect_equal("stopped");
    return;
  }
  ASSERT_EQ(finish(train("again")), 0);
  expect_equal("again");

  pid_t child = train("killed");
  const std::string log = folder / "killed/metrics.jsonl";
  const auto begin = std::chrono::steady_clock::now();
  for (long lines = 0; lines < 3;) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(5))
        << "no three lines in " << log;
    std::string text = std::filesystem::exists(log) ? read_bytes(log) : "";
    lines = std::count(text.begin(), text.end(), '\n');
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(child, SIGKILL);
  finish(child);
  ASSERT_EQ(finish(train("killed", {"--resume"})), 0);
  expect_equal("killed");
}

INSTANTIATE_TEST_SUITE_P(
    All, Resume,
    testing::Values(ResumeCase{"f32", kResumeConfig, "f32"}, ResumeCase{"bf16", kResumeConfig, "bf16"},
                    ResumeCase{"everything", kEverything, "f32"}, ResumeCase{"strong", kStrong, "f32"},
                    ResumeCase{"cascade", kCascade, "f32"}, ResumeCase{"masks", kMasks, "f32"},
                    ResumeCase{"classifier_f32", kClassifier, "f32"},
                    ResumeCase{"classifier_bf16", kClassifier, "bf16"}),
    [](const auto& c) { return std::string(c.param.name); });

// ---- faults ---------------------------------------------------------------------------------------------

constexpr const char* kFaultsConfig = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 16 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 }
}
data {
  SHAPES
  workers: 1
  augment { height: 64 width: 64 }
  val_height: 64
  val_width: 64
}
train { epochs: 3 eval_every_epochs: 2 log_every: 1 checkpoint_every_steps: 1 ema_decay: 0.9 }
)";

// A data set, a whole run of six steps and one that stopped after five.
class RunFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_) return;
    folder_ = new TestFolder;  // takes its name from the first test
    ASSERT_EQ(run_command({"data", "shapes", "--output", *folder_ / "shapes", "--images", "4", "--seed", "1",
                           "--size", "64"}),
              0);
    write_bytes(*folder_ / "c.textproto", config_in(folder_->path(), kFaultsConfig));
    ASSERT_EQ(train("whole"), 0);
    ASSERT_EQ(train("stopped", {"--max-steps", "5"}), 0);
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::vector<std::string> words(const std::string& run, std::vector<std::string> more) {
    std::vector<std::string> all{"train", "--output", *folder_ / run};
    if (std::find(more.begin(), more.end(), "--resume") == more.end())
      all.insert(all.end(), {"--config", *folder_ / "c.textproto"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static int train(const std::string& run, std::vector<std::string> more = {}) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = run_command(words(run, std::move(more)));
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return status;
  }
  // Copies the stopped run, to be damaged.
  static std::string copy(const std::string& name) {
    std::filesystem::copy(*folder_ / "stopped", *folder_ / name, std::filesystem::copy_options::recursive);
    return *folder_ / name;
  }
  static std::string file(const std::string& run, const std::string& name) {
    return *folder_ / (run + "/checkpoints/" + name + ".safetensors");
  }
  static void expect_ends_as_whole(const std::string& run) {
    for (const char* name : {"last", "best"})
      EXPECT_TRUE(read_bytes(file("whole", name)) == read_bytes(file(run, name))) << run << ": " << name;
  }
  static void expect_said(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\ngot: " << text;
  }

  static TestFolder* folder_;
  static std::string out_, err_;
};
TestFolder* RunFaults::folder_ = nullptr;
std::string RunFaults::out_, RunFaults::err_;

struct Damage {
  const char* name;
  void (*apply)(const std::string& path, std::string bytes);
  const char* said;
};
const Damage kDamages[] = {
    {"flipped", [](const std::string& p, std::string b) { write_bytes(p, (b[b.size() / 2] ^= 4, b)); },
     "the checksum of tensor \""},
    {"header",
     [](const std::string& p, std::string b) { write_bytes(p, (b[b.find("saccade.seed") + 16] ^= 1, b)); },
     "the checksum of its header is wrong"},
    {"config",
     [](const std::string& p, std::string b) { write_bytes(p, (b[b.find("hidden_dim: 16") + 13] ^= 1, b)); },
     "the checksum of its header is wrong"},
    {"zeros",
     [](const std::string& p, std::string b) {
       write_bytes(p, b.replace(b.size() / 2, b.size(), b.size() - b.size() / 2, '\0'));
     },
     "the checksum of tensor \""},
    {"cut", [](const std::string& p, std::string b) { write_bytes(p, b.substr(0, b.size() / 2)); },
     "cut short"},
    {"empty", [](const std::string& p, std::string) { write_bytes(p, ""); }, "0 bytes"},
    {"missing", [](const std::string& p, std::string) { std::filesystem::remove(p); }, "last.safetensors"},
    {"folder",
     [](const std::string& p, std::string) {
       std::filesystem::remove(p);
       std::filesystem::create_directory(p);
     },
     "last.safetensors"},
};

TEST_F(RunFaults, ADamagedLastIsSkippedForThePreviousOne) {
  for (const Damage& d : kDamages) {
    SCOPED_TRACE(d.name);
    const std::string run = std::string("damaged_") + d.name;
    copy(run);
    d.apply(file(run, "last"), read_bytes(file(run, "last")));
    if (std::string(d.name) != "missing" && std::string(d.name) != "folder") {
      testing::internal::CaptureStderr();
      EXPECT_EQ(run_command({"eval", "--checkpoint", file(run, "last"), "--annotations",
                             *folder_ / "shapes/annotations.json", "--images", *folder_ / "shapes/images"}),
                2);
      expect_said(testing::internal::GetCapturedStderr(), file(run, "last"));
    }
    if (std::string(d.name) == "folder") std::filesystem::remove(file(run, "last"));
    EXPECT_EQ(train(run, {"--resume"}), 0) << err_;
    expect_said(out_, "skipped ");
    expect_said(out_, d.said);
    expect_said(out_, "after step 4");
    expect_ends_as_whole(run);
  }
}

// Otherwise there would be no undamaged one until the next is in its place.
TEST_F(RunFaults, ADamagedLastNeverBecomesPrevious) {
  copy("kept");
  std::string bytes = read_bytes(file("kept", "last"));
  bytes[bytes.size() / 2] ^= 4;
  write_bytes(file("kept", "last"), bytes);
  EXPECT_EQ(train("kept", {"--resume", "--max-steps", "5"}), 0) << err_;
  EXPECT_EQ(read_checkpoint_info(SafetensorsReader(file("kept", "previous"))).step, 4);
  EXPECT_EQ(read_checkpoint_info(SafetensorsReader(file("kept", "last"))).step, 5);
}

TEST_F(RunFaults, WithoutAWholeCheckpointNothingIsTouched) {
  const std::string path = copy("broken");
  for (const char* name : {"last", "previous"}) std::filesystem::resize_file(file("broken", name), 3000);
  const std::string best = read_bytes(file("broken", "best")), metrics = read_bytes(path + "/metrics.jsonl");
  for (int removed = 0; removed < 2; ++removed) {
    EXPECT_EQ(train("broken", {"--resume"}), 2);
    expect_said(err_, path + ": no checkpoint from which the run can continue");
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
    EXPECT_EQ(train("broken"), 2);  // nor does a new run take its place
    EXPECT_TRUE(read_bytes(file("broken", "best")) == best);
    EXPECT_EQ(read_bytes(path + "/metrics.jsonl"), metrics);
    for (const char* name : {"last", "previous"}) std::filesystem::remove(file("broken", name));
  }
  EXPECT_EQ(train("nowhere", {"--resume"}), 2);
  expect_said(err_, "nowhere: holds no run to resume");
  EXPECT_FALSE(std::filesystem::exists(*folder_ / "nowhere"));
  EXPECT_EQ(train("first_start", {"--resume", "--config", *folder_ / "c.textproto"}), 0) << err_;
  expect_said(out_, "first_start: there is no run to resume yet, so a new one starts");
  expect_ends_as_whole("first_start");
}

TEST_F(RunFaults, ASecondProcessIsRefusedAtOnce) {
  const std::string path = copy("shared");
  {
    RunFolder held(path);
    EXPECT_EQ(train("shared", {"--resume"}), 2);
    expect_said(err_, "process " + std::to_string(::getpid()) + " on ");
    EXPECT_EQ(run_command({"eval", "--checkpoint", file("shared", "last"), "--annotations",
                           *folder_ / "shapes/annotations.json", "--images", *folder_ / "shapes/images"}),
              0);
  }
  // A dead process holds no lock, whatever its file says.
  write_bytes(path + "/.lock", "process 1 on nowhere\n");
  EXPECT_EQ(train("shared", {"--resume"}), 0) << err_;
  expect_ends_as_whole("shared");
  EXPECT_FALSE(std::filesystem::exists(path + "/.lock"));
}

// Returns a configuration as it was written when the fields that only one family reads were in `transformer`,
// those of every family at least with their defaults.
std::string with_old_names(std::string text, const std::string& newline) {
  const std::string part = newline + "  deformable_detr {", transformer = newline + "  transformer {";
  const size_t at = text.find(part), end = text.find(newline + "  }", at);
  if (at == std::string::npos || text.find(transformer) == std::string::npos) return "no such parts: " + text;
  const std::string own = text.substr(at + part.size(), end - at - part.size());
  text.erase(at, end + newline.size() + 3 - at);
  return text.insert(text.find(transformer) + transformer.size(),
                     own + newline + "    pre_norm: false" + newline + "    hybrid_encoder {" + newline +
                         "      dim: 256" + newline + "    }");
}

TEST_F(RunFaults, ARunFromBeforeChecksumsGoesOn) {
  const std::string path = copy("old");
  std::filesystem::remove(file("old", "previous"));
  // The file as it was written then: the same without the new metadata.
  std::string bytes = read_bytes(file("old", "last"));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  std::string header = bytes.substr(8, length);
  for (const char* key : {"saccade.checksums", "saccade.header_checksum", "saccade.images"}) {
    const size_t at = header.find(std::string(",\"") + key),
                 end = header.find('"', header.find(":\"", at) + 2);
    ASSERT_NE(at, std::string::npos) << key;
    header.erase(at, end + 1 - at);
  }
  header = with_old_names(header, "\\u000a");
  write_bytes(path + "/config.textproto", with_old_names(read_bytes(path + "/config.textproto"), "\n"));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string data = bytes.substr(8 + length);
  length = header.size();
  write_bytes(file("old", "last"), std::string(reinterpret_cast<char*>(&length), 8) + header + data);
  EXPECT_EQ(train("old", {"--resume"}), 0) << err_;
  expect_ends_as_whole("old");
}

// What --set changes, whether the run continues with it, and the message.
struct Change {
  const char* set;
  bool goes_on;
  const char* said;
};
const Change kChanges[] = {
    {"optimizer.learning_rate=1e-3", true, "optimizer.learning_rate: 0.0002 -> 0.001"},
    {"optimizer.weight_decay=0.5", true, "optimizer.weight_decay: 0.0001 -> 0.5"},
    {"optimizer.clip_norm=1", true, "optimizer.clip_norm: 0.1 -> 1"},
    {"optimizer.group={regex: \"bias\" lr_mult: 0.1}", true,
     "optimizer.group: none -> [{regex: \"bias\" lr_mult: 0.1"},
    {"optimizer.type=sgd", false, "optimizer.type: \"adamw\" -> \"sgd\""},
    {"schedule.type=cosine", true, "schedule.type: \"step\" -> \"cosine\""},
    {"schedule.warmup_steps=3", true, "schedule.warmup_steps: 0 -> 3"},
    {"criterion.bbox_weight=4", true, "criterion.bbox_weight: 5 -> 4"},
    {"criterion.class_loss=ia_bce", false, "criterion.class_loss: focal -> ia_bce"},
    {"train.epochs=4", true, "train.epochs: 3 -> 4"},
    {"train.eval_every_epochs=1", true, "train.eval_every_epochs: 2 -> 1"},
    {"train.ema_decay=0.5", true, "train.ema_decay: 0.9 -> 0.5"},
    {"train.ema_decay=0", false, "train.ema_decay: 0.9 -> 0"},
    {"train.accumulate=2", false, "train.accumulate: 1 -> 2"},
    {"data.classes=[cat]", false, "data.classes: none -> [\"cat\"]"},
    {"data.class_map.cat=dog", false, "data.class_map: none -> [{name: \"cat\" as: \"dog\"}]"},
    {"data.batch_size=4", false, "data.batch_size: 2 -> 4"},
    {"data.augment.horizontal_flip=0", true, "data.augment.horizontal_flip: 0.5 -> 0"},
    {"data.workers=2", true, "data.workers: 1 -> 2"},
    {"model.transformer.queries=6", false, "model.transformer.queries: 5 -> 6"},
    {"model.transformer.dropout=0", false, "model.transformer.dropout: 0.1 -> 0"},
    {"precision=bf16", true, "precision: f32 -> bf16"},
    {"seed=7", false, "seed: 42 -> 7"},
};

TEST_F(RunFaults, EveryChangeOfTheConfigurationIsSaidOrRefused) {
  const Config base = resolve_config(load_config(*folder_ / "stopped/config.textproto"));
  EXPECT_TRUE(config_changes(base, base).empty());
  for (const Change& c : kChanges) {
    SCOPED_TRACE(c.set);
    const std::vector<ConfigChange> changes =
        config_changes(base, resolve_config(load_config(*folder_ / "stopped/config.textproto", {c.set})));
    ASSERT_EQ(changes.size(), 1u);
    expect_said(changes[0].to_string(), c.said);
    EXPECT_EQ(changes[0].breaks_resume, !c.goes_on);
  }
  copy("changed");
  EXPECT_EQ(train("changed",
                  {"--resume", "--set", "seed=7", "--set", "data.batch_size=1", "--set", "train.epochs=9"}),
            2);
  expect_said(
      err_,
      "a run that continues cannot change data.batch_size: 2 -> 1, seed: 42 -> 7; leave them as they were");
  EXPECT_EQ(
      train("changed", {"--resume", "--set", "train.epochs=4", "--set", "optimizer.learning_rate=0.001"}), 0)
      << err_;
  expect_said(out_, "changed optimizer.learning_rate: 0.0002 -> 0.001\nchanged train.epochs: 3 -> 4\n");
  EXPECT_EQ(SafetensorsReader(file("changed", "last")).metadata().at("saccade.step"), "8");
}

TEST_F(RunFaults, OtherImagesAreRefused) {
  ASSERT_EQ(run_command({"data", "shapes", "--output", *folder_ / "more", "--images", "5", "--seed", "1",
                         "--size", "64"}),
            0);
  copy("other");
  EXPECT_EQ(
      train("other", {"--resume", "--set", "data.train.annotations=" + *folder_ / "more/annotations.json",
                      "--set", "data.train.images=" + *folder_ / "more/images"}),
      2);
  expect_said(err_, "trained on other images (4 images");
  // The same images are in another place.
  std::filesystem::copy(*folder_ / "shapes", *folder_ / "moved", std::filesystem::copy_options::recursive);
  EXPECT_EQ(
      train("other", {"--resume", "--set", "data.train.annotations=" + *folder_ / "moved/annotations.json",
                      "--set", "data.train.images=" + *folder_ / "moved/images"}),
      0)
      << err_;
  expect_said(out_, "changed data.train.images: ");
  // A change made then is not reported at the next start.
  ASSERT_EQ(train("other", {"--resume"}), 0) << err_;
  EXPECT_EQ(out_.find("changed "), std::string::npos) << out_;
}

// A child process gets a signal while it trains: at once, or when the progress shows its first evaluation.
TEST_F(RunFaults, SignalsSaveAndSayHowToGoOn) {
  for (const auto& [signal, name] : {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}}) {
    SCOPED_TRACE(name);
    const std::string run = *folder_ / name, out = run + ".out";
    const pid_t child = ::fork();
    if (child == 0) {
      std::freopen(out.c_str(), "w", stdout);
      std::vector<std::string> all = words(name, {"--set", "train.epochs=5000"});
      std::vector<char*> argv{const_cast<char*>("saccade")};
      for (std::string& word : all) argv.push_back(word.data());
      argv.push_back(nullptr);
      ::execv(SACCADE_BINARY_DIR "/saccade", argv.data());
      ::_exit(99);
    }
    while (read_bytes(run + "/metrics.jsonl").find('\n') == std::string::npos) ::usleep(1000);
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    const std::string text = read_bytes(out);
    expect_said(text, fmt::format("stopped by {} after step ", name));
    expect_said(text, fmt::format("saccade train --output {} --resume\n", run));
    EXPECT_FALSE(std::filesystem::exists(run + "/.lock"));
    // Every line of the metrics belongs to a step that was saved.
    const std::string step =
        SafetensorsReader(run + "/checkpoints/last.safetensors").metadata().at("saccade.step");
    const size_t at = text.find("after step " + step + ",");
    EXPECT_NE(at, std::string::npos) << text;
  }
}

}  // namespace
}  // namespace saccade
