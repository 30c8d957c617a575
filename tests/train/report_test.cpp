// Tests saccade report: its metrics against pycocotools and scikit-learn
// (scripts/golden/data/make_report.py), and its page.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>

#include "data/formats/coco/coco.h"
#include "data/images/image.h"
#include "tests/input_error.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"
#include "train/config/config.h"
#include "train/report/run_metrics.h"
#include "train/tasks/detection/detection_metrics.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

std::vector<double> numbers(simdjson::dom::array list) {
  std::vector<double> out;
  for (const auto v : list) out.push_back(double(v));
  return out;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-9) << what << " " << i;
}

class ReportGolden : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cases, ReportGolden, testing::Values("crowds", "large_ids", "many"));

TEST_P(ReportGolden, FiguresAreThoseOfOthers) {
  const std::string golden = SACCADE_SOURCE_DIR "/tests/golden/", name = GetParam();
  simdjson::dom::parser parser;
  simdjson::dom::element expected;
  ASSERT_EQ(parser.load(golden + "report/" + name + ".json").get(expected), simdjson::SUCCESS);
  const GroundTruth truth = read_ground_truth({golden + "coco_eval/" + name + ".gt.json", ""});
  const std::vector<Detection> detections = read_detections(golden + "coco_eval/" + name + ".dt.json");
  const DetectionMetrics f = detection_metrics(truth, detections, double(expected["threshold"]), "d");
  EXPECT_NEAR(f.coco.AP, double(expected["coco"]["AP"]), 1e-9);
  EXPECT_EQ(f.at_50.best.threshold, double(expected["best"]["threshold"]));
  EXPECT_NEAR(f.at_50.best.f1, double(expected["best"]["f1"]), 1e-9);
  size_t c = 0;
  for (const auto row : expected["classes"]) {
    const std::string where = name + " " + std::to_string(c);
    ASSERT_LT(c, f.at_50.classes.size());
    EXPECT_EQ(f.at_50.classes[c].category_id, int64_t(row["category_id"]));
    EXPECT_EQ(f.at_50.classes[c].objects, int64_t(row["objects"])) << where;
    EXPECT_NEAR(f.coco.classes[c].AP, double(row["AP"]), 1e-9) << where;
    for (const auto& [iou, curve] :
         {std::pair{"iou_50", &f.at_50.classes[c]}, std::pair{"iou_75", &f.at_75.classes[c]}}) {
      expect_near(curve->scores, numbers(row[iou]["scores"]), where + " scores");
      expect_near(curve->precision, numbers(row[iou]["precision"]), where + " precision");
      expect_near(curve->recall, numbers(row[iou]["recall"]), where + " recall");
      expect_near(curve->at_recall, numbers(row[iou]["precision_at_recall"]), where + " at recall");
      EXPECT_NEAR(curve->best.f1, double(row[iou]["best_f1"]), 1e-9) << where;
    }
    ++c;
  }
  EXPECT_EQ(c, f.at_50.classes.size());
  size_t r = 0;
  for (const auto row : expected["confusion_matrix"]) {
    std::vector<int64_t> counts;
    for (const auto v : row) counts.push_back(int64_t(v));
    ASSERT_LT(r, f.confusion.counts.size());
    EXPECT_EQ(f.confusion.counts[r++], counts) << name;
  }
  simdjson::dom::element ours;
  const std::string json = metrics_json(f);
  ASSERT_EQ(parser.parse(json).get(ours), simdjson::SUCCESS) << json;
}

TEST(Report, OutcomesOfImagesAddUpToTheMatrix) {
  GroundTruth truth{.images = {{1, "a", 100, 100}, {2, "b", 100, 100}},
                    .annotations = {},
                    .categories = {{3, "x"}, {7, "y"}}};
  truth.annotations = {
      {1, 1, 3, {0, 0, 10, 10}, 100}, {2, 1, 7, {50, 50, 10, 10}, 100}, {3, 1, 3, {80, 0, 10, 10}, 100}};
  const std::vector<Detection> found{
      {1, 3, {0, 0, 10, 9}, 0.9},     // right
      {1, 3, {0, 0, 10, 8}, 0.95},    // of the same object, less overlap: invented
      {1, 3, {50, 50, 10, 10}, 0.8},  // another class
      {2, 7, {0, 0, 5, 5}, 0.7},      // invented
      {2, 7, {0, 0, 5, 5}, 0.2}};     // below the threshold
  std::vector<ImageOutcome> images;
  const ConfusionMatrix m = confusion_matrix(truth, found, 0.5, 0.5, &images);
  EXPECT_EQ(m.counts, (std::vector<std::vector<int64_t>>{{1, 0, 1}, {1, 0, 0}, {1, 1, 0}}));
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[0].right, 1);
  EXPECT_EQ(images[0].confused, 1);
  EXPECT_EQ(images[0].missed, 1);
  EXPECT_EQ(images[0].invented, 1);
  EXPECT_EQ(images[1].invented, 1);
  EXPECT_DOUBLE_EQ(images[0].f1(), 2.0 / 6);
}

TEST(Report, MetricsOfSeveralStartsAreRead) {
  TestFolder dir;
  write_bytes(dir / "m.jsonl",
              "{\"type\": \"train\", \"step\": 1, \"loss\": 3, \"elapsed_s\": 10}\n"
              "{\"type\": \"train\", \"step\": 2, \"loss\": null, \"elapsed_s\": 20}\n"
              "damaged\n"
              "{\"type\": \"train\", \"step\": 3, \"loss\": 2, \"epoch\": 1.5, \"elapsed_s\": 5}\n"
              "{\"type\": \"eval\", \"step\": 3, \"AP\": 0.5, \"AP/a\": 0.5, \"elapsed_s\": 6}\n"
              "{\"type\": \"eval\", \"step\": 3, \"AP\": 0.6");
  const RunMetrics m = read_run_metrics(dir / "m.jsonl");
  EXPECT_EQ(m.seconds, 26);
  EXPECT_EQ(m.resumed, std::vector<double>{2});  // by the clock alone, as for runs without start_step
  EXPECT_EQ(m.train.at("loss").size(), 2u);
  EXPECT_EQ(m.eval.at("AP").back().y, 0.5);
  auto page_of = [](const RunMetrics& metrics) {
    Page page("p", {});
    add_run_section(page, metrics, {{.title = "AP by class", .prefix = "AP/", .things = "classes"}});
    return page.finish("f");
  };
  const std::string text = page_of(m);
  EXPECT_NE(text.find("where the run was resumed"), std::string::npos);
  EXPECT_NE(text.find("AP by class"), std::string::npos);
  EXPECT_EQ(text.find("classes by name"), std::string::npos);
  RunMetrics many = m;
  for (char c = 'b'; c < 'k'; ++c) many.eval[std::string("AP/") + c] = {{3, 0.5}};
  many.eval["AP/none"] = {{3, -1}};
  EXPECT_NE(page_of(many).find("the first 8 of 10 classes by name"), std::string::npos);
}

constexpr const char* kReportConfig = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 dropout: 0 }
}
data {
  train { annotations: "DIR/set/annotations.json" images: "DIR/set/images" }
  val { annotations: "DIR/set/annotations.json" images: "DIR/set/images" }
  batch_size: 2
  workers: 0
  augment { height: 64 width: 64 crop_probability: 0 }
  val_height: 64
  val_width: 64
}
optimizer { group { regex: "backbone" lr_mult: 0.1 } }
train { max_steps: 3 log_every: 1 }
)";

// This holds however late the first line of a later start comes.
TEST(Report, StartsAreToldApartByTheirStep) {
  TestFolder dir;
  write_bytes(dir / "m.jsonl",
              "{\"type\": \"train\", \"step\": 10, \"loss\": 3, \"elapsed_s\": 10}\n"
              "{\"type\": \"train\", \"step\": 20, \"loss\": 2, \"elapsed_s\": 15, \"start_step\": 12}\n"
              "{\"type\": \"train\", \"step\": 30, \"loss\": 1, \"elapsed_s\": 25, \"start_step\": 12}\n"
              "{\"type\": \"eval\", \"step\": 30, \"AP\": 0.5, \"elapsed_s\": 5, \"start_step\": 30}\n");
  const RunMetrics m = read_run_metrics(dir / "m.jsonl");
  EXPECT_EQ(m.resumed, (std::vector<double>{12, 30}));
  EXPECT_EQ(m.seconds, 40);
}

TEST(Report, PageOfADetectorHoldsItsFigures) {
  TestFolder dir;
  ASSERT_EQ(run_command(
                {"data", "shapes", "--output", dir / "set", "--images", "6", "--seed", "1", "--size", "64"}),
            0);
  std::string set = read_bytes(dir / "set/annotations.json"), config = kReportConfig;
  const std::string name = "\"name\":\"", hostile = "<script>1</script>";
  const size_t at = std::min(set.find("\"name\": \""), set.find(name));
  ASSERT_NE(at, std::string::npos);
  set.insert(set.find('"', at + 6) + 1, hostile);
  write_bytes(dir / "set/annotations.json", set);
  for (size_t k; (k = config.find("DIR")) != std::string::npos;) config.replace(k, 3, dir.path());
  write_bytes(dir / "c.textproto", config);
  const std::string run = dir / "run";
  ASSERT_EQ(run_command({"train", "--config", dir / "c.textproto", "--output", run, "--max-steps", "2"}), 0);
  ASSERT_EQ(run_command({"train", "--output", run, "--resume"}), 0);
  std::string events;
  for (const auto& file : fs::directory_iterator(run))
    if (file.path().filename().string().starts_with("events.")) events += read_bytes(file.path().string());
  for (const char* part :
       {"eval/pictures/", "eval/AP/", "train/learning_rate/backbone", "train/gradient_norm", "\xff\xd8\xff"})
    EXPECT_NE(events.find(part), std::string::npos) << part;

  ASSERT_EQ(run_command({"report", run, "--json", dir / "f.json"}), 0);
  const std::string page = read_bytes(run + "/report.html");
  for (const char* part :
       {"Loss", "Learning rate", "Gradient norm", "COCO metrics", "Average Recall", "Precision and recall",
        "Confusion matrix", "Worst images", "Label errors", "cannot be trusted to find label errors",
        "Where the attention looked", "hidden_dim: 16", "where the run was resumed", "&lt;script&gt;1",
        "data:image/jpeg;base64,"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"<script>1", "http:", "https:"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("<script"), page.rfind("<script"));  // the page's own

  // A file of the detections gives the same; the same files give the same bytes.
  const std::string best = run + "/checkpoints/best.safetensors";
  ASSERT_EQ(run_command({"eval", "--checkpoint", best, "--annotations", dir / "set/annotations.json",
                         "--images", dir / "set/images", "--detections", dir / "d.json"}),
            0);
  ASSERT_EQ(run_command({"report", run, "--output", dir / "r2.html", "--detections", dir / "d.json", "--json",
                         dir / "g.json"}),
            0);
  EXPECT_EQ(read_bytes(dir / "f.json"), read_bytes(dir / "g.json"));
  ASSERT_EQ(run_command({"report", run, "--output", dir / "r3.html"}), 0);
  EXPECT_EQ(read_bytes(dir / "r3.html"), page);

  // Nothing that it reads is overwritten, and the classes are those of the checkpoint.
  const std::string in_use = dir / "set/annotations.json", other = dir / "renamed.json";
  std::string renamed = read_bytes(in_use);
  renamed.replace(renamed.find(hostile), hostile.size(), "other");
  write_bytes(other, renamed);
  for (const auto& [arguments, error] : std::vector<std::pair<ReportArguments, std::string>>{
           {{.run = run, .output = best}, "--output is the same file as the checkpoint"},
           {{.run = run, .output = run + "/checkpoints/last.safetensors"},
            "--output is the same file as the last checkpoint of the run"},
           {{.run = run, .json = best}, "--json is the same file as the checkpoint"},
           {{.run = run, .output = in_use}, "--output is the same file as the annotations"},
           {{.run = run, .json = in_use, .data = {dir / "set"}, .split = "train"},
            "--json is the same file as the annotations"},
           {{.run = run, .output = dir / "set/images/1.png"}, "is the name of an image"},
           {{.run = run, .detections = dir / "d.json", .annotations = other, .images = dir / "set/images"},
            "expected a data set with the same categories"}}) {
    const std::string checkpoint = read_bytes(best), annotations = read_bytes(in_use);
    EXPECT_NE(input_error([&] { run_report(arguments); }).find(error), std::string::npos) << error;
    EXPECT_TRUE(read_bytes(best) == checkpoint && read_bytes(in_use) == annotations) << error;
  }

  fs::rename(dir / "set", dir / "moved");
  EXPECT_NE(input_error([&] { run_report({.run = run}); }).find("or --annotations and --images"),
            std::string::npos);
  ASSERT_EQ(run_command({"report", run, "--output", dir / "r4.html", "--annotations",
                         dir / "moved/annotations.json", "--images", dir / "moved/images"}),
            0);
  // If the images are elsewhere, it is not known that they are those of the training.
  std::string without = page;
  const size_t remark = without.find("<p class=\"note\">", without.find("Label errors</h2>") + 30);
  ASSERT_NE(without.find("also in the training set", remark), std::string::npos);
  without = without.substr(0, remark) + without.substr(without.find('\n', remark) + 1);
  EXPECT_EQ(read_bytes(dir / "r4.html"), without);
  ASSERT_EQ(run_command({"report", run, "--output", dir / "r5.html", "--curves-only"}), 0);
  EXPECT_EQ(read_bytes(dir / "r5.html").find("COCO metrics"), std::string::npos);
  EXPECT_NE(input_error([&] { run_report({.run = dir / "moved"}); }).find("is not a run folder"),
            std::string::npos);
}

// Formats that know classes by name take their numbers from the checkpoint.
TEST(Report, ValidationSetsMayLackAClass) {
  TestFolder dir;
  fs::create_directories(dir / "set/images");
  for (const char* name : {"1.png", "2.png"})
    write_png(Image(64, 64), dir / ("set/images/" + std::string(name)));
  const std::string header = "image,class,x1,y1,x2,y2\n";
  write_bytes(dir / "set/train.csv", header + "1.png,cat,1,1,30,30\n2.png,dog,20,20,60,60\n");
  write_bytes(dir / "set/val.csv", header + "2.png,dog,1,1,30,30\n");
  std::string config = kReportConfig;
  for (size_t k; (k = config.find("DIR")) != std::string::npos;) config.replace(k, 3, dir.path());
  write_bytes(dir / "c.textproto", config);
  const std::string run = dir / "run";
  ASSERT_EQ(run_command({"train", "--config", dir / "c.textproto", "--data", dir / "set", "--output", run,
                         "--max-steps", "1"}),
            0);
  EXPECT_EQ(run_command({"report", run}), 0);
  EXPECT_EQ(
      run_command({"report", run, "--annotations", dir / "set/val.csv", "--images", dir / "set/images"}), 0);
  const std::string page = read_bytes(run + "/report.html");
  EXPECT_NE(page.find("cat"), std::string::npos);
  EXPECT_NE(page.find("dog"), std::string::npos);
}

TEST(Report, PageOfAClassifierHoldsItsFigures) {
  TestFolder dir;
  for (const char* split : {"train/", "val/"})
    for (const char* name : {"cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png", "emu/1.png"}) {
      fs::create_directories(fs::path(dir / (std::string(split) + name)).parent_path());
      write_png(Image(32, 32), dir / (std::string(split) + name));
    }
  write_bytes(dir / "c.textproto", R"(
model { type: "classifier" backbone { type: "vit" arg { key: "depth" int: 1 } arg { key: "dim" int: 24 }
        arg { key: "heads" int: 2 } arg { key: "image_size" int: 32 } arg { key: "patch" int: 16 } } }
data { batch_size: 2 workers: 0 augment { height: 32 width: 32 crop_probability: 0 } val_height: 32 val_width: 32 }
train { max_steps: 2 log_every: 1 })");
  const std::string run = dir / "run";
  ASSERT_EQ(run_command({"train", "--config", dir / "c.textproto", "--data", dir.path(), "--output", run}),
            0);
  ASSERT_EQ(run_command({"report", run, "--json", dir / "f.json"}), 0);
  const std::string page = read_bytes(run + "/report.html");
  for (const char* part : {"Accuracy", "Confusion matrix", "Worst images", "predicted as"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  simdjson::dom::parser parser;
  simdjson::dom::element figures;
  ASSERT_EQ(parser.load(dir / "f.json").get(figures), simdjson::SUCCESS);
  // All images look the same, so one class is chosen for all.
  int64_t sum = 0, columns = 0;
  std::vector<int64_t> column(3);
  for (const auto row : figures["confusion_matrix"]["counts"]) {
    size_t k = 0;
    for (const auto v : row) column[k++] += int64_t(v);
  }
  for (int64_t v : column) {
    sum += v;
    columns += v > 0;
  }
  EXPECT_EQ(sum, 5);
  EXPECT_EQ(columns, 1);

  // Every image of another class contradicts its label, however slightly.
  ASSERT_EQ(run_command({"report", run, "--output", dir / "e.html", "--label-errors", dir / "errors",
                         "--suspicion", "0"}),
            0);
  const size_t chosen = static_cast<size_t>(std::ranges::find(column, 5) - column.begin());
  simdjson::dom::array errors;
  simdjson::dom::parser list_parser;
  ASSERT_EQ(list_parser.load(dir / "errors/label_errors.json").get_array().get(errors), simdjson::SUCCESS);
  EXPECT_EQ(errors.size(), chosen == 2 ? 4u : 3u);
  for (const auto error : errors) {
    EXPECT_EQ(std::string_view(error["kind"]), "wrong_class");
    EXPECT_EQ(std::string_view(error["suggested_category"]),
              (std::vector<std::string>{"cat", "dog", "emu"}[chosen]));
    EXPECT_NE(std::string_view(error["category"]), std::string_view(error["suggested_category"]));
  }
  EXPECT_NE(input_error([&] {
              run_report({.run = run, .label_errors = {.folder = dir / "x", .form = "yolo"}});
            }).find("--to: the run is a classifier's"),
            std::string::npos);

  // There are more classes than names, as other people's checkpoints may say.
  Config wide = resolve_config(load_config(run + "/config.textproto"));
  wide.mutable_model()->set_num_classes(5);
  save_checkpoint(dir / "wide.safetensors", *build_model(wide, 5),
                  {.config = config_text(wide), .class_names = {"cat", "dog", "emu"}});
  EXPECT_NE(input_error([&] {
              run_report({.run = run, .checkpoint = dir / "wide.safetensors"});
            }).find("has 5 classes, but 3 class names"),
            std::string::npos);
}

}  // namespace
}  // namespace saccade
