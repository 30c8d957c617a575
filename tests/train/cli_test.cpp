// Runs the program. The inputs that it refuses are in bad_inputs/.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <set>

#include "core/formats/safetensors.h"
#include "core/runtime/cpu/onednn.h"
#include "core/runtime/gpu.h"
#include "core/tensor/device.h"
#include "data/evaluation/detections.h"
#include "data/formats/data_format.h"
#include "data/images/image.h"
#include "tests/train/program.h"
#include "train/checkpoints/checkpoint.h"

namespace saccade {
namespace {

TEST(CliStart, HelpIsFast) {
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    auto start = std::chrono::steady_clock::now();
    Result r = run("--help");
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    ASSERT_EQ(r.status, 0);
    ASSERT_NE(r.out.find("train"), std::string::npos);
  }
  // The time includes the shell that starts it, next to other tests; a sanitizer's own start takes longer.
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(best, 0.1);
#endif
}

TEST(CliStart, EveryCommandHasHelpWithAnExample) {
  for (const char* command :
       {"train", "eval", "score", "predict", "bench", "export", "summary", "report", "data report",
        "data show", "data shapes", "data check", "convert", "describe"}) {
    Result r = run(std::string(command) + " --help");
    EXPECT_EQ(r.status, 0) << command;
    EXPECT_NE(r.out.find(std::string("saccade ") + command), std::string::npos) << r.out;
    EXPECT_EQ(r.err, "");
  }
  EXPECT_EQ(run("--version").out.rfind("saccade ", 0), 0u);
  for (const auto& [asked, same] : {std::pair{"version", "--version"},
                                    {"-V", "--version"},
                                    {"help", "--help"},
                                    {"help train", "train --help"}}) {
    const Result other = run(asked);
    EXPECT_EQ(other.status, 0) << asked;
    EXPECT_EQ(other.out, run(same).out) << asked;
  }
}

TEST(CliStart, Describe) {
  Result list = run("describe");
  EXPECT_EQ(list.status, 0);
  EXPECT_NE(list.out.find("ms_deform_attn"), std::string::npos);
  Result one = run("describe ms_deform_attn");
  EXPECT_EQ(one.status, 0);
  EXPECT_NE(one.out.find("points       int     default 4, 1 to 64"), std::string::npos) << one.out;
  EXPECT_NE(run("describe models").out.find("rt_detr_r18  "), std::string::npos);
  EXPECT_EQ(run("describe quickstart").out, read_bytes(SACCADE_SOURCE_DIR "/configs/quickstart.textproto"));
  // What is known about published weights follows the recipe, as comments.
  const std::string published = run("describe dfine_n").out;
  EXPECT_TRUE(published.starts_with(read_bytes(SACCADE_SOURCE_DIR "/configs/dfine_n.textproto")));
  for (const char* part :
       {"\n# coco: dfine_n_coco, AP 42.8, 15.5 MB, licence Apache-2.0, SHA-256 41973938d2784d38",
        "\n#   https://github.com/Peterande/storage/", "\n# imagenet: "})
    EXPECT_NE(published.find(part), std::string::npos) << part << published;
  EXPECT_NE(run("describe dfine_s").out.find("size unknown, licence Apache-2.0, its SHA-256 is recorded"),
            std::string::npos);
}

// Through the real loader, model and criterion: a run that stopped and continued ends with the same bytes.
TEST_F(Cli, AStoppedRunResumesToTheSameBytes) {
  std::string train =
      "train --config tiny.textproto --set schedule.type=cosine --set train.max_steps=5 --output ";
  expect_works(train + "whole");
  expect_works(train + "parts --max-steps 1");
  expect_works(train + "parts --resume --max-steps 3");
  expect_works(train + "parts --resume");
  for (const char* file : {"last", "best"}) {
    std::string name = std::string("checkpoints/") + file + ".safetensors";
    std::string whole = read_bytes(scratch() / "whole" / name),
                parts = read_bytes(scratch() / "parts" / name);
    ASSERT_FALSE(whole.empty());
    EXPECT_TRUE(whole == parts) << name;
  }
}

TEST_F(Cli, EvalPredictAndScoreAgree) {
  expect_works("eval --detections d.json --checkpoint " + kCheckpoint + kShapes);
  Result eval = run("eval --checkpoint " + kCheckpoint + kShapes);
  Result score =
      run("score --annotations shapes/annotations.json --detections d.json --json f.json --per-class");
  EXPECT_EQ(score.status, 0) << score.err;
  auto twelve_lines = [](const Result& r) {
    size_t begin = r.out.find(" Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = ");
    if (begin == std::string::npos) return "no figures in " + r.out;
    size_t end = begin;
    for (int i = 0; i < 12; ++i) end = r.out.find('\n', end) + 1;
    return r.out.substr(begin, end - begin);
  };
  EXPECT_EQ(twelve_lines(eval), twelve_lines(score));
  std::string figures = read_bytes(scratch() / "f.json");
  for (const char* key : {"AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large", "AR_1", "AR_10",
                          "AR_100", "AR_small", "AR_medium", "AR_large"})
    EXPECT_NE(figures.find("\"" + std::string(key) + "\":"), std::string::npos) << key << " in " << figures;
  expect_works("predict --threshold 0 --sampling-points --output pictures --checkpoint " + kCheckpoint +
               " shapes/images");
  int pictures = 0;
  for (const auto& entry : fs::directory_iterator(scratch() / "pictures"))
    pictures += entry.path().extension() == ".png";
  EXPECT_EQ(pictures, 4);
  std::string list = read_bytes(scratch() / "pictures/detections.json");
  for (const char* key : {"\"file_name\":", "\"category_id\":", "\"bbox\":", "\"score\":"})
    EXPECT_NE(list.find(key), std::string::npos) << key;
}

TEST_F(Cli, TrainSaysWhatItTrainsOrNothing) {
  Result said = run("train --config tiny.textproto --output said");
  EXPECT_EQ(said.status, 0) << said.err;
  for (const char* part :
       {"4 images, ", " classes; deformable_detr with ", "2 batches of 2 per epoch; 2 steps"})
    EXPECT_NE(said.out.find(part), std::string::npos) << said.out;
  Result quiet = run("train --config tiny.textproto --output quiet --quiet");
  EXPECT_EQ(quiet.status, 0) << quiet.err;
  EXPECT_EQ(quiet.out + quiet.err, "");
}

// The metrics of a file, an evaluation and a run's page are the same, with the same options.
TEST_F(Cli, EvalScoreAndReportCountTheSame) {
  const std::string options = " --max-detections 20 --area-ranges tiny:0-150,rest:150- --json ";
  expect_works("train --config tiny.textproto --output judged --quiet");
  expect_works("eval --checkpoint judged/checkpoints/best.safetensors" + kShapes +
               "--detections judged.json" + options + "eval.json");
  expect_works("score --annotations shapes/annotations.json --detections judged.json" + options +
               "score.json");
  expect_works("report judged --output a.html" + options + "a.json");
  expect_works("report judged --detections judged.json --output b.html" + options + "b.json");
  const std::string figures = read_bytes(scratch() / "score.json");
  EXPECT_NE(figures.find("\"AP_tiny\": "), std::string::npos) << figures;
  EXPECT_NE(figures.find("\"AR_20\": "), std::string::npos) << figures;
  EXPECT_EQ(figures.find("small"), std::string::npos) << figures;
  EXPECT_EQ(read_bytes(scratch() / "eval.json"), figures);
  for (const char* page : {"a.json", "b.json"})
    EXPECT_TRUE(read_bytes(scratch() / page).starts_with("{\"coco\": " + figures)) << page;
  EXPECT_NE(read_bytes(scratch() / "a.html").find(">rest<"), std::string::npos);
}

TEST_F(Cli, FrozenParametersKeepTheirBytes) {
  const std::string train = "train --config tiny.textproto --init-from " + kCheckpoint;
  expect_works(train + " --output frozen --freeze '^backbone' --freeze input_proj");
  expect_works(train + " --output trained");
  const SafetensorsReader before((scratch() / kCheckpoint).string());
  int frozen = 0, trained = 0;
  for (const auto& [folder, all_move] : {std::pair{"frozen", false}, std::pair{"trained", true}}) {
    const SafetensorsReader after((scratch() / folder / "checkpoints/last.safetensors").string());
    for (const auto& entry : before.entries()) {
      if (is_training_state(entry.name) || !entry.name.ends_with(".weight")) continue;
      const bool keeps =
          !all_move && (entry.name.starts_with("backbone") || entry.name.starts_with("input_proj"));
      const bool same =
          before.read(entry.name).to_vector<float>() == after.read(entry.name).to_vector<float>();
      EXPECT_TRUE(same || !keeps) << entry.name;
      frozen += keeps;
      trained += !same;
    }
  }
  EXPECT_GT(frozen, 5);
  EXPECT_GT(trained, 20);
  // Resumed, with or without the option, the run keeps its groups.
  const std::string config = read_bytes(scratch() / "frozen/config.textproto");
  EXPECT_NE(config.find("frozen: true"), std::string::npos);
  for (const char* again : {"", " --freeze '^backbone' --freeze input_proj"}) {
    expect_works(std::string("train --output frozen --resume") + again);
    EXPECT_EQ(read_bytes(scratch() / "frozen/config.textproto"), config) << again;
  }
}

TEST_F(Cli, PredictTakesPatternsAndChooses) {
  const std::string predict = "predict --threshold 0 --checkpoint " + kCheckpoint + " --output ";
  auto count = [](const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  fs::create_directories(scratch() / "nested/deeper");
  fs::copy_file(scratch() / "shapes/images/000001.png", scratch() / "nested/a.png");
  fs::copy_file(scratch() / "shapes/images/000002.png", scratch() / "nested/deeper/b.png");
  fs::copy_file(scratch() / "shapes/images/000003.png", scratch() / "nested/[c].png");
  struct Case {
    std::string images;
    int want;
  };
  for (const auto& [images, want] : {Case{"nested", 2},
                                     {"nested --recursive", 3},
                                     {"'nested/*.png' 'nested/*/b.p?g'", 3},
                                     {"'nested/[c].png'", 1}}) {
    expect_works(predict + "chosen --max 1 " + images);
    EXPECT_EQ(count(read_bytes(scratch() / "chosen/detections.json"), "\"file_name\""), want) << images;
  }

  // Several at a time, in order, from a list with a bad one: the good ones give what they give alone.
  write_bytes(scratch() / "names.txt", "nested/a.png\r\nnone.png\n\nnested/deeper/b.png\nnested/[c].png\n");
  expect_works(predict + "one nested/a.png nested/deeper/b.png 'nested/[c].png'");
  Result listed = run(predict + "from_list --list names.txt --batch-size 2");
  EXPECT_EQ(listed.status, 2);
  EXPECT_EQ(count(listed.err, "none.png: cannot read the file"), 1) << listed.err;
  EXPECT_EQ(read_bytes(scratch() / "one/a.png"), read_bytes(scratch() / "from_list/a.png"));
  auto names_of = [&](const char* folder) {
    std::string names, text = read_bytes(scratch() / folder / "detections.json");
    for (size_t at = 0; (at = text.find("\"file_name\"", at)) != std::string::npos; ++at)
      names += text.substr(at, text.find(',', at) - at) + "\n";
    return names;
  };
  EXPECT_EQ(names_of("one"), names_of("from_list"));
  // score finds images by name.
  expect_works(predict + "scored shapes/images");
  expect_works(
      "score --annotations shapes/annotations.json --detections scored/detections.json --json scored.json");
  expect_works("eval --batch-size 1 --checkpoint " + kCheckpoint + kShapes + "--json evaluated.json");
  EXPECT_EQ(read_bytes(scratch() / "scored.json"), read_bytes(scratch() / "evaluated.json"));
  expect_refused("score --annotations shapes/annotations.json --detections one/detections.json",
                 "no image of the annotations is called \"a.png\"");

  expect_works(predict + "cut --max 3 --crop nested/a.png");
  const std::string list = read_bytes(scratch() / "cut/detections.json");
  EXPECT_EQ(count(list, "\"picture\": \"a.png\""), 3) << list;
  for (const char* crop : {"crops/a.png", "crops/a_2.png", "crops/a_3.png"}) {
    EXPECT_EQ(count(list, std::string("\"crop\": \"") + crop), 1) << list;
    EXPECT_GT(read_image(scratch() / "cut" / crop).height, 0);
  }
  // The class is the same by name and by id.
  const std::string name =
      open_dataset({scratch() / "shapes/annotations.json", "", ""}, LabelScheme::kContiguous)
          ->class_names()
          .at(1);
  expect_works(predict + "by_name --classes " + name + " nested/a.png");
  expect_works(predict + "by_id --classes 2 nested/a.png");
  const std::string one = read_bytes(scratch() / "by_name/detections.json");
  EXPECT_EQ(one, read_bytes(scratch() / "by_id/detections.json"));
  EXPECT_EQ(count(one, "\"category_id\""), count(one, "\"category_id\": 2,"));
  EXPECT_GT(count(one, "\"category\": \"" + name + "\""), 0);
}

TEST_F(Cli, BenchTimesACheckpoint) {
  expect_works("bench " + kCheckpoint +
               " --seconds 0 --batch-size 2 --height 48 --width 32 --json bench.json");
  const std::string figures = read_bytes(scratch() / "bench.json");
  for (const char* part : {"{\"images_per_second\": ", "\"latency_ms\": {\"p50\": ", "\"p90\": ", "\"p99\": ",
                           "\"runs\": 10,", "\"batch_size\": 2, \"height\": 48, \"width\": 32"})
    EXPECT_NE(figures.find(part), std::string::npos) << part << " in " << figures;
}

TEST_F(Cli, PrecisionTakesThePlaceOfTheConfigurations) {
  auto detections = [](const std::string& precision) {
    const std::string list = "detections_" + precision + ".json";
    expect_works("eval --checkpoint " + kCheckpoint +
                 " --annotations shapes/annotations.json --images shapes/images --detections " + list +
                 (precision.empty() ? "" : " --precision " + precision));
    return read_bytes(scratch() / list);
  };
  EXPECT_EQ(detections("f32"), detections(""));  // as it was trained
  EXPECT_NE(detections("bf16"), detections(""));
  expect_works("bench " + kCheckpoint + " --seconds 0 --precision bf16 --json bench_bf16.json");
  EXPECT_NE(read_bytes(scratch() / "bench_bf16.json").find("\"precision\": \"bf16\""), std::string::npos);
}

// ONEDNN_MAX_CPU_ISA makes any processor one without instructions for bf16.
TEST_F(Cli, PrecisionAutoIsChosenWhereARunBegins) {
  const std::string begin = " train --config tiny.textproto --set precision=auto --output ";
  const Result narrow = run_script("ONEDNN_MAX_CPU_ISA=AVX2 \"$S\"" + begin + "auto --max-steps 1");
  EXPECT_EQ(narrow.status, 0) << narrow.err;
  EXPECT_NE(narrow.out.find("precision auto: f32, since this processor"), std::string::npos) << narrow.out;
  EXPECT_NE(read_bytes(scratch() / "auto/config.textproto").find("precision: f32"), std::string::npos);
  // A run that continues keeps its precision, even if another processor would gain from a different one.
  const Result resumed = run(begin.substr(1) + "auto --resume");
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("precision auto: f32, as when the run began"), std::string::npos) << resumed.out;
  EXPECT_NE(read_bytes(scratch() / "auto/config.textproto").find("precision: f32"), std::string::npos);
  const std::string eval = "eval --checkpoint " + kCheckpoint + kShapes + "--detections ";
  expect_works(eval + "chosen.json --precision auto");
  expect_works(eval + "named.json --precision " +
               (onednn::has_avx512_bf16() ? std::string("bf16") : std::string("f32")));
  EXPECT_EQ(read_bytes(scratch() / "chosen.json"), read_bytes(scratch() / "named.json"));
}

TEST_F(Cli, FieldsOfInferenceAreSetOnACheckpoint) {
  expect_works(
      "eval --checkpoint " + kCheckpoint +
      " --annotations shapes/annotations.json --images shapes/images --detections set_few.json --set "
      "eval.max_detections=1 --set data.val_height=48 --set data.val_width=80");
  std::vector<int64_t> images;
  for (const Detection& d : read_detections(scratch() / "set_few.json")) images.push_back(d.image_id);
  EXPECT_FALSE(images.empty());
  EXPECT_EQ(std::set<int64_t>(images.begin(), images.end()).size(), images.size()) << "one of each image";

  expect_works("predict --checkpoint " + kCheckpoint +
               " --output set_one --threshold 0 --set eval.max_detections=1 shapes/images/000001.png");
  const std::string one = read_bytes(scratch() / "set_one/detections.json");
  EXPECT_NE(one.find("\"score\""), std::string::npos);
  EXPECT_EQ(one.find("\"score\""), one.rfind("\"score\"")) << one;
}

TEST_F(Cli, TilesKnowTheBestScore) {
  const Result tiled =
      run("predict --tile 48 --threshold 1 --output tiled --checkpoint " + kCheckpoint + " " + image_);
  EXPECT_EQ(tiled.status, 0) << tiled.err;
  EXPECT_NE(tiled.out.find("note: the best score is "), std::string::npos) << tiled.out;
}

constexpr const char* kTinyClassifier = R"(
model { type: "classifier" backbone { blocks: [1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 } }
data {
  train { images: "classes" }
  val { images: "classes" }
  batch_size: 2
  workers: 1
  augment { height: 32 width: 32 }
  val_height: 32
  val_width: 32
  val_crop_pct: 0.875
}
train { max_steps: 2 }
)";

// Two class folders of shapes images and a checkpoint of a two-step training.
class CliClassifier : public Cli {
 protected:
  static void SetUpTestSuite() {
    Cli::SetUpTestSuite();
    if (fs::exists(scratch() / "classes")) return;
    int i = 0;
    for (const auto& entry : fs::directory_iterator(scratch() / "shapes/images")) {
      fs::path folder = scratch() / "classes" / (i++ % 2 ? "ball" : "box");
      fs::create_directories(folder);
      fs::copy_file(entry.path(), folder / entry.path().filename());
    }
    write_bytes(scratch() / "classes.textproto", kTinyClassifier);
    expect_works("train --config classes.textproto --output class_run");
  }
};

const std::string kClassCheckpoint = "class_run/checkpoints/last.safetensors";

TEST_F(CliClassifier, EvalPredictAndSummary) {
  Result eval = run("eval --json f.json --images classes --checkpoint " + kClassCheckpoint);
  EXPECT_EQ(eval.status, 0) << eval.err;
  for (const char* part :
       {"classes: 4 images of 2 classes", "top-1 accuracy", "top-5 accuracy  1.0000  (4 of 4"})
    EXPECT_NE(eval.out.find(part), std::string::npos) << part << " not in " << eval.out;
  std::string figures = read_bytes(scratch() / "f.json");
  expect_works("bench " + kClassCheckpoint + " --seconds 0");
  for (const char* part : {"\"top1\": ", "\"top5\": 1", "\"loss\": ", "\"images\": 4"})
    EXPECT_NE(figures.find(part), std::string::npos) << part << " not in " << figures;
  Result predict =
      run("predict --output classes_out --checkpoint " + kClassCheckpoint + " classes/ball " + image_);
  EXPECT_EQ(predict.status, 0) << predict.err;
  EXPECT_NE(predict.out.find(": b"), std::string::npos) << predict.out;
  std::string list = read_bytes(scratch() / "classes_out/predictions.json");
  for (const char* part : {"\"file_name\": ", "\"classes\": [{\"class\": \"b", "\"score\": "})
    EXPECT_NE(list.find(part), std::string::npos) << part << " not in " << list;
  Result summary = run("summary --config classes.textproto --json s.json");
  EXPECT_EQ(summary.status, 0) << summary.err;
  EXPECT_NE(summary.out.find("fc (Linear)"), std::string::npos) << summary.out;
}

TEST_F(CliClassifier, DataCheckReadsEveryPicture) {
  fs::copy(scratch() / "classes", scratch() / "broken_class", fs::copy_options::recursive);
  write_bytes(scratch() / "broken_class/ball/zzz.jpg", "not a picture");
  const Result check = run("data check --data broken_class");
  EXPECT_EQ(check.status, 2);
  for (const char* part : {"broken_class: 5 images of 2 classes", "images by class: \"ball\" 3, \"box\" 2",
                           "broken_class/ball/zzz.jpg: not an image"})
    EXPECT_NE(check.out.find(part), std::string::npos) << part << " not in " << check.out;
  expect_works("data check --data classes");
}

// DETR supports the same commands; its decoder has no sampling points to draw.
TEST_F(Cli, DetrTrainsAndPredicts) {
  expect_works(
      "train --config tiny.textproto --output detr --set model.type=detr --set criterion.class_loss=softmax");
  const std::string checkpoint = "detr/checkpoints/best.safetensors";
  expect_works("eval --checkpoint " + checkpoint + kShapes + "--detections detr.json");
  expect_works("score --annotations shapes/annotations.json --detections detr.json");
  expect_works("predict --threshold 0 --output detr_pictures --checkpoint " + checkpoint + " " + image_);
  EXPECT_TRUE(fs::exists(scratch() / "detr_pictures/detections.json"));
  expect_refused("predict --sampling-points --output no_pictures --checkpoint " + checkpoint + " " + image_,
                 "--sampling-points");
  EXPECT_FALSE(fs::exists(scratch() / "no_pictures"));
}

TEST_F(Cli, Convert) {
  expect_works("convert " + kCheckpoint + " a.safetensors");
  expect_works("convert a.safetensors b.safetensors");
  EXPECT_EQ(read_bytes(scratch() / "a.safetensors"), read_bytes(scratch() / "b.safetensors"));
}

// The weights of a detector whose 91 outputs are COCO's category ids are converted, fine-tuned on other
// classes, and refused where heads do not fit.
TEST_F(Cli, OfficialWeights) {
  const std::string golden = SACCADE_SOURCE_DIR "/tests/golden/",
                    weights = golden + "eval/deformable_detr.pth";
  Result r = run("convert " + weights + " official.safetensors");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("91 outputs: the labels are COCO's category ids"), std::string::npos) << r.out;
  expect_works("convert " + weights + " again.safetensors");
  EXPECT_EQ(read_bytes(scratch() / "official.safetensors"), read_bytes(scratch() / "again.safetensors"));
  expect_works("predict --checkpoint official.safetensors --threshold 0.9 --output pictures " + image_);
  // Shapes have other names than COCO's categories.
  expect_refused("eval --checkpoint official.safetensors" + kShapes,
                 "category 1 is \"circle\", but \"person\"");

  write_bytes(scratch() / "official.textproto", R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 1 bottleneck: true }
  transformer { hidden_dim: 32 heads: 4 encoder_layers: 1 decoder_layers: 2 ffn_dim: 32 queries: 20 encoder_points: 2
                decoder_points: 2 } deformable_detr { box_refine: true }
}
data {
  train { annotations: "shapes/annotations.json" images: "shapes/images" }
  val { annotations: "shapes/annotations.json" images: "shapes/images" }
  augment { height: 128 width: 128 }
  val_height: 128
  val_width: 128
}
train { max_steps: 1 }
)");
  const std::string train = "train --config official.textproto --init-from " + weights + " --output ";
  expect_works(train + "tuned --set data.labels=category_id --set model.num_classes=91");
  expect_works("eval --checkpoint tuned/checkpoints/last.safetensors" + kShapes);
  expect_works("convert tuned/checkpoints/last.safetensors copy.safetensors");
  expect_refused(train + "refused --set data.labels=category_id --set model.num_classes=6",
                 "model.num_classes: 6 for category ids up to 6 in");
  expect_refused(train + "refused", "--reinit-heads initialises the class heads anew");
  r = run(train + "other --reinit-heads");
  EXPECT_EQ(r.status, 0) << r.err;
  for (const char* line :
       {"official names\n", "loaded: ", "class heads, re-initialised: 4 tensors: class_embed.0.weight"})
    EXPECT_NE(("\n" + r.out).find("\n" + weights + ": " + line), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("\\n"), std::string::npos) << r.out;
  expect_works(train + "keyed --reinit-heads --key model");
  EXPECT_EQ(read_bytes(scratch() / "keyed/checkpoints/last.safetensors"),
            read_bytes(scratch() / "other/checkpoints/last.safetensors"));
  expect_refused(train + "refused --reinit-heads --key none", "has no \"none\"");
  expect_refused("train --config official.textproto --output refused --reinit-heads", "needs --init-from");

  // What a file does not say is assumed, reported, and can be set.
  const std::string hugging_face = golden + "transformers/single_scale.safetensors";
  expect_refused("convert " + hugging_face + " hf.safetensors", "(--set model.transformer.heads=...?)");
  r = run("convert " + hugging_face + " hf.safetensors --set model.transformer.heads=4");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("assumed, since the file does not say: model.backbone.dilation: false"),
            std::string::npos);
  expect_refused("convert " + hugging_face +
                     " hf.safetensors --set model.transformer.heads=4 "
                     "--set model.transformer.queries=7",
                 "\"query_embed.weight\"");
  expect_works("convert " + hugging_face +
               " hf.safetensors --set model.transformer.heads=4 --set model.num_classes=4 "
               "--set data.labels=contiguous");
  // Six shapes do not fit four outputs; seven outputs would be their category ids.
  expect_refused("convert " + hugging_face +
                     " hf.safetensors --set model.transformer.heads=4 --annotations "
                     "shapes/annotations.json",
                 "do not fit 4 outputs");
  // Tensors that no model here has are of no use.
  expect_refused("convert " + golden + "torch_files/protocol4.pth plain.safetensors",
                 "belong to no model of this program");
  expect_refused("convert " + golden + "torch_files/zip.pth plain.safetensors --key none", "has no \"none\"");
  expect_refused("eval --checkpoint " + golden + "classifiers/hf_vit.safetensors" + kShapes,
                 "not a checkpoint of saccade");
  expect_refused("convert " + golden + "torch_files/protocol4.pth plain.safetensors --set seed=1",
                 "not a known detector");
}

TEST_F(Cli, Summary) {
  Result r = run("summary --config tiny.textproto --json s.json");
  EXPECT_EQ(r.status, 0) << r.err;
  std::string text = read_bytes(scratch() / "s.json");
  for (const char* key : {"\"parameters\": ", "\"trainable\": ", "\"macs\": "})
    EXPECT_NE(text.find(key), std::string::npos) << text;
  r = run("summary --config tiny.textproto --set model.transformer.box_refine=true");
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.err,
            "note: --set model.transformer.box_refine: the field is now model.deformable_detr.box_refine\n");
  text = read_bytes(scratch() / "tiny.textproto");
  const size_t at = text.find("transformer {");
  ASSERT_NE(at, std::string::npos);
  write_bytes(scratch() / "old.textproto", text.insert(at + 13, " box_refine: true "));
  r = run("summary --config old.textproto");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with(
      "note: old.textproto: model.transformer.box_refine is now model.deformable_detr.box_refine\n"))
      << r.out;
}

// The shells' completion scripts ask the program, here with the words up to the cursor.
TEST_F(Cli, CompletesCommandsFlagsAndConfigurations) {
  const std::vector<std::array<std::string, 2>> cases = {
      {"tra", "train"},
      {"data sh", "shapes show"},
      {"predict --ch", "--checkpoint"},
      {"eval --split ''", "train val test"},
      {"eval --split=t", "--split=train --split=test"},
      {"train --config ''", "FILES"},
      {"train --config=x", "FILES"},
      {"train --data x", "FOLDERS"},
      {"bench ''", "FILES"},
      {"train --model rt_detr_r1", "rt_detr_r101 rt_detr_r18"},
      {"train --device cu", "cuda"},
      {"train --set mod", "model."},
      {"train --set model.b", "model.backbone."},
      {"train --set model.backbone.depth=",
       "model.backbone.depth=18 model.backbone.depth=34 model.backbone.depth=50 "
       "model.backbone.depth=101"},
      {"train --set model.backbone.type=s", "model.backbone.type=swin"},
      {"train --set precision=b", "precision=bf16"},
      {"train --set data.val.format=c", "data.val.format=coco data.val.format=csv data.val.format=cvat"},
      {"train --set eval.evaluator=", "eval.evaluator=top_k eval.evaluator=coco eval.evaluator=miou"},
      {"data convert --from c", "coco csv cvat"},
      {"data convert --to ''", "coco voc yolo label_maps"},
      {"train --set=precision=b", "--set=precision=bf16"},
      {"train --resume --set deterministic=", "deterministic=false deterministic=true"},
      {"train --set optimizer.group.0.lr_m", "optimizer.group.0.lr_mult="},
      {"train --set nothing.x", ""},
      {"completion ''", "bash zsh fish"},
      {"nonsense ''", "train"},
  };
  for (const auto& [words, want] : cases) {
    SCOPED_TRACE(words);
    Result r = run("--complete saccade " + words);
    EXPECT_EQ(r.status, 0);
    std::ranges::replace(r.out, '\n', ' ');
    if (words == "nonsense ''")
      EXPECT_TRUE(r.out.starts_with(want)) << r.out;
    else
      EXPECT_EQ(r.out, want.empty() ? "" : want + " ");
  }
  EXPECT_EQ(run_script("$S completion bash >c.bash && mkdir 'two words'").status, 0);
  for (const auto& [line, want] : std::vector<std::array<std::string, 2>>{
           {"train --set model.backbone.type=sw", "swin"},
           {"train --set \"model.backbone.type=sw", "model.backbone.type=swin"},
           {"train --set 'model'.backbone.type=sw", "swin"},
           {"train --resume=\"x y\" --output 'two w", "two words"},
           {"train --output two\\ w", "two words"},
           {"train --output=two\\ w", "two words"},
           {"train --output=\"two w", "two words"},
           {"train \"--output=two w", "--output=two words"}}) {
    SCOPED_TRACE(line);
    Result r = run_script(
        "cat >t.bash <<'END'\n. ./c.bash\ncompopt() { :; }\nIFS= read -r COMP_LINE <line\nCOMP_POINT=${#COMP_LINE}\n"
        "_saccade\nprintf '%s\\n' \"${COMPREPLY[@]}\"\nEND\ncat >line <<'END'\n" +
        std::string(SACCADE_BINARY_DIR) + "/saccade " + line + "\nEND\nbash t.bash");
    EXPECT_EQ(r.out, want + "\n") << r.err;
  }
}

TEST_F(Cli, DevicesThatAreNotThereAreRefused) {
  const std::string train = "train --output out --config tiny.textproto --device ";
  if (cuda_is_emulated()) {
    setenv("SACCADE_EMULATOR_HIDES_LIBRARIES", "1", 1);
    expect_refused(train + "cuda", "--device cuda: cuBLASLt is missing: no libcublasLt.so.13.hidden in ");
    unsetenv("SACCADE_EMULATOR_HIDES_LIBRARIES");
  } else if (!cuda_problem().empty()) {
    expect_refused(train + "cuda", cuda_problem());
    const std::string before = "this program was built without CUDA ";
    if (cuda_problem().starts_with(before)) {
      const std::string reason = "CUDA: off " + cuda_problem().substr(before.size());
      EXPECT_NE(run("--version").out.find(reason), std::string::npos) << reason;
    }
  }
  expect_refused(train + "tpu", "tpu");
  EXPECT_FALSE(fs::exists(scratch() / "out"));
}

TEST_F(Cli, HasPagesOfAManual) {
  expect_works("--version");
  EXPECT_EQ(run_script("mkdir man && $S --manual man && ls man").status, 0);
  const std::string page = read_bytes(scratch() / "man/saccade-data-shapes.1");
  for (const char* part : {".TH SACCADE\\-DATA\\-SHAPES 1", ".SH SYNOPSIS", "\\fB\\-\\-images\\fR \\fIN\\fR",
                           ".SH EXAMPLES", ".SH EXIT STATUS"})
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  EXPECT_NE(read_bytes(scratch() / "man/saccade.1").find("saccade train"), std::string::npos);
}

}  // namespace
}  // namespace saccade
