// Tests saccade report: the labels that detections contradict, as files; what runs have logged, as CSV; and
// several runs in one page.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>

#include "core/files/text.h"
#include "data/evaluation/detections.h"
#include "data/formats/coco/coco.h"
#include "data/formats/data_format.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

struct Reported {
  int status = 0;
  std::string text;  // both streams
};

Reported report(std::vector<std::string> words) {
  words.insert(words.begin(), "report");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Reported reported{run_command(words), ""};
  reported.text = testing::internal::GetCapturedStdout();
  reported.text += testing::internal::GetCapturedStderr();
  return reported;
}

class ReportRuns : public testing::Test {
 protected:
  void SetUp() override {
    testing::internal::CaptureStdout();
    ASSERT_EQ(run_command({"data", "shapes", "--output", dir_ / "set", "--images", "12", "--seed", "3",
                           "--size", "64"}),
              0);
    testing::internal::GetCapturedStdout();
    truth_ = read_ground_truth({dir_ / "set/annotations.json", dir_ / "set/images"});
    make_run("run", 1, 0.25);
  }
  // Makes a run as training leaves it, but without checkpoints.
  void make_run(const std::string& name, int64_t batch, double ap, const std::string& rate = "0.001") {
    fs::create_directories(dir_ / name);
    write_bytes(dir_ / (name + "/config.textproto"), fmt::format(R"(
model {{
  num_classes: 6
  backbone {{ blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }}
  transformer {{ hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 }}
}}
data {{
  train {{ annotations: "{0}/set/annotations.json" images: "{0}/set/images" }}
  val {{ annotations: "{0}/set/annotations.json" images: "{0}/set/images" }}
  batch_size: {1}
}}
optimizer {{ learning_rate: {2} }}
)",
                                                                 dir_.path(), batch, rate));
    write_bytes(
        dir_ / (name + "/metrics.jsonl"),
        fmt::format(
            R"({{"type": "train", "step": 5, "epoch": 0.5, "loss": 3.5, "loss_class": null, "elapsed_s": 2}}
not a line
{{"type": "train", "step": 10, "epoch": 1, "loss": NaN, "elapsed_s": 4}}
{{"type": "train", "step": 10, "epoch": 1, "loss": 2.25, "loss_class": 1.5, "elapsed_s": 4}}
{{"type": "eval", "step": 10, "epoch": 1, "AP": {0}, "AP_large": -1, "AP/a,\"b": 0.5}}
{{"type": "eval", "step": 20, "epoch": 2, "AP": 0.125}}
)",
            ap));
  }
  bool is_free(const Box& box, const Annotation& but_for) const {
    return box.x1 >= 0 && box.x2 <= 64 && std::ranges::none_of(truth_.annotations, [&](const Annotation& a) {
             return a.id != but_for.id && a.image_id == but_for.image_id &&
                    iou(box_of_corner(a.bbox), box) > 0;
           });
  }
  // Writes detections of all objects, and labels of which one is gone, one has another class and one another
  // place; they touch no other label.
  void plant() {
    std::vector<Detection> finds;
    std::vector<size_t> alone;
    for (size_t i = 0; i < truth_.annotations.size(); ++i) {
      const Annotation& a = truth_.annotations[i];
      finds.push_back({a.image_id, a.category_id, a.bbox, 0.75});
      if (is_free(box_of_corner(a.bbox), a)) alone.push_back(i);
    }
    write_detections(dir_ / "finds.json", finds);
    moved_ = *std::ranges::find_if(alone, [&](size_t i) {
      const Annotation& a = truth_.annotations[i];
      return is_free(moved(box_of_corner(a.bbox), a.bbox[2] / 2, 0), a);
    });
    std::erase(alone, moved_);
    swapped_ = alone.at(0);
    dropped_ = alone.at(1);
    GroundTruth planted = truth_;
    planted.annotations[swapped_].category_id = planted.annotations[swapped_].category_id % 3 + 1;
    planted.annotations[moved_].bbox[0] += planted.annotations[moved_].bbox[2] / 2;
    planted.annotations.erase(planted.annotations.begin() + static_cast<std::ptrdiff_t>(dropped_));
    write_bytes(dir_ / "planted.json", coco_json(planted, "a test"));
  }
  std::vector<std::string> with_finds(std::vector<std::string> words) {
    words.insert(words.end(), {"--detections", dir_ / "finds.json", "--annotations", dir_ / "planted.json",
                               "--images", dir_ / "set/images", "--output", dir_ / "page.html"});
    return words;
  }

  TestFolder dir_;
  GroundTruth truth_;
  size_t moved_ = 0, swapped_ = 0, dropped_ = 0;  // of its annotations
};

TEST_F(ReportRuns, LabelErrorsAreListedAndCorrected) {
  plant();
  const Reported done = report(with_finds({dir_ / "run", "--label-errors", dir_ / "relabel"}));
  ASSERT_EQ(done.status, 0) << done.text;
  EXPECT_NE(done.text.find("3 label errors: 1 missing, 1 wrong_class, 1 wrong_box"), std::string::npos)
      << done.text;
  const std::string page = read_bytes(dir_ / "page.html");
  for (const char* part : {"Label errors", "Missing: the model finds", "Wrong class: the model finds",
                           "Wrong box: the model finds"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("Not found: the model"), std::string::npos);

  simdjson::dom::parser parser;
  simdjson::dom::element list;
  ASSERT_EQ(parser.load(dir_ / "relabel/label_errors.json").get(list), simdjson::SUCCESS);
  std::vector<std::string> kinds;
  for (const auto error : list) {
    kinds.emplace_back(std::string_view(error["kind"]));
    EXPECT_EQ(double(error["score"]), 0.75);
    if (kinds.back() == "wrong_class") {
      EXPECT_EQ(int64_t(error["annotation_id"]), truth_.annotations[swapped_].id);
    }
    if (kinds.back() == "wrong_box") {
      EXPECT_EQ(double(error["suggested_bbox"].at(0)), truth_.annotations[moved_].bbox[0]);
    }
    if (kinds.back() == "missing") {
      EXPECT_EQ(double(error["suggested_bbox"].at(1)), truth_.annotations[dropped_].bbox[1]);
    }
  }
  std::sort(kinds.begin(), kinds.end());
  EXPECT_EQ(kinds, (std::vector<std::string>{"missing", "wrong_box", "wrong_class"}));
  const std::string csv = read_bytes(dir_ / "relabel/label_errors.csv");
  EXPECT_EQ(std::ranges::count(csv, '\n'), 4);
  EXPECT_TRUE(csv.starts_with("kind,suspicion,file_name,image_id,annotation_id,"));

  // The labels are as they were before: the model's suggestions replace what was planted, and nothing else
  // has changed.
  const GroundTruth labels = read_ground_truth({dir_ / "relabel/coco/annotations.json", ""});
  size_t suggested = 0;
  for (const ImageInfo& image : labels.images) {
    std::vector<std::pair<int64_t, std::array<double, 4>>> is, was;
    for (const Annotation& a : labels.annotations)
      if (a.image_id == image.id) is.emplace_back(a.category_id, a.bbox);
    for (const Annotation& a : truth_.annotations)
      if (a.image_id == image.id) was.emplace_back(a.category_id, a.bbox);
    std::sort(is.begin(), is.end());
    std::sort(was.begin(), was.end());
    EXPECT_EQ(is, was) << image.file_name;
  }
  const std::string text = read_bytes(dir_ / "relabel/coco/annotations.json");
  for (size_t at = 0; (at = text.find("\"score\":0.75", at)) != std::string::npos; ++at) ++suggested;
  EXPECT_EQ(suggested, 3u) << "what is suggested has a score";

  // The second time the output exists already, and stays.
  EXPECT_NE(
      report(with_finds({dir_ / "run", "--label-errors", dir_ / "relabel"})).text.find("already exists"),
      std::string::npos);
  EXPECT_EQ(read_bytes(dir_ / "relabel/label_errors.csv"), csv);
}

TEST_F(ReportRuns, CorrectedLabelsAreOfTheFormThatIsAskedFor) {
  plant();
  for (const auto& [form, file] :
       {std::pair{"yolo", "data.yaml"}, std::pair{"labelstudio", "labeling_config.xml"},
        std::pair{"cvat", "annotations.xml"}}) {
    const Reported done =
        report(with_finds({dir_ / "run", "--label-errors", dir_ / form, "--to", form, "--suspicion", "0.9"}));
    EXPECT_EQ(done.status, 0) << done.text;
    EXPECT_TRUE(fs::exists(fs::path(dir_ / form) / form / file)) << form;
  }
  // Nothing is wrong with the labels that the detections were made from.
  const Reported none = report({dir_ / "run", "--detections", dir_ / "finds.json", "--label-errors",
                                dir_ / "none", "--output", dir_ / "page.html"});
  EXPECT_EQ(none.status, 0) << none.text;
  EXPECT_NE(none.text.find("0 label errors"), std::string::npos) << none.text;
  EXPECT_FALSE(fs::exists(dir_ / "none/coco"));
}

// There are no detections and no images: an output that cannot be written is refused before that.
TEST_F(ReportRuns, OutputsAreTriedFirst) {
  const std::string json = dir_ / "same";
  for (const std::vector<std::string>& outputs :
       std::vector<std::vector<std::string>>{{"--label-errors", "/proc/x"},
                                             {"--label-errors", dir_ / "run/metrics.jsonl"},
                                             {"--label-errors", dir_ / "run/metrics.jsonl/x"},
                                             {"--label-errors", json, "--json", json},
                                             {"--label-errors", dir_ / "new", "--json", "/proc/x.json"},
                                             {"--csv", "/proc/x.csv"},
                                             {"--output", "/proc/x.html"}}) {
    std::vector<std::string> words{dir_ / "run", "--detections", dir_ / "nothing.json"};
    words.insert(words.end(), outputs.begin(), outputs.end());
    const Reported refused = report(words);
    EXPECT_EQ(refused.status, 2);
    EXPECT_EQ(refused.text.find("nothing.json"), std::string::npos) << refused.text;
    EXPECT_EQ(std::ranges::count(refused.text, '\n'), 1) << refused.text;
  }
  for (const char* name : {"same", "new"}) EXPECT_FALSE(fs::exists(dir_ / name)) << name;
}

// The file has all metrics of any line; what was not logged, or is not a number, is empty. Names of classes
// are fields, whatever they contain.
TEST_F(ReportRuns, CurvesAreValuesWithCommas) {
  EXPECT_EQ(report({dir_ / "run", "--curves-only", "--csv", dir_ / "c.csv"}).status, 0);
  const std::string name = dir_ / "run";
  EXPECT_EQ(read_bytes(dir_ / "c.csv"),
            "run,type,step,AP,\"AP/a,\"\"b\",AP_large,elapsed_s,epoch,loss,loss_class\n" + name +
                ",train,5,,,,2,0.5,3.5,\n" + name + ",train,10,,,,4,1,2.25,1.5\n" + name +
                ",eval,10,0.25,0.5,-1,,1,,\n" + name + ",eval,20,0.125,,,,2,,\n");
  EXPECT_NE(read_bytes(dir_ / "run/report.html").find("<b>0.250</b><span>best AP (step 10)</span>"),
            std::string::npos)
      << "the first number";
}

TEST_F(ReportRuns, SeveralAreInOnePage) {
  make_run("wide", 4, 0.5);
  make_run("fast", 1, 0.75, "0.01");
  const Reported done = report(
      {dir_ / "run", dir_ / "wide", dir_ / "fast", "--output", dir_ / "all.html", "--csv", dir_ / "all.csv"});
  ASSERT_EQ(done.status, 0) << done.text;
  const std::string page = read_bytes(dir_ / "all.html");
  for (const char* part : {"0.750 (step 10)", "0.500 (step 10)", "data.batch_size", "optimizer.learning_rate",
                           "Plotted over epochs", "deformable_detr"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("hidden_dim"), std::string::npos) << "fields that are the same";
  EXPECT_EQ(page.find("http:"), std::string::npos);
  const std::string csv = read_bytes(dir_ / "all.csv");
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + 3 * 4);
  // The same runs give the same page.
  ASSERT_EQ(report({dir_ / "run", dir_ / "wide", dir_ / "fast", "--output", dir_ / "again.html"}).status, 0);
  EXPECT_EQ(read_bytes(dir_ / "again.html"), page);
  // Runs of one batch size are shown over their steps; one without log lines is shown with what exists.
  write_bytes(dir_ / "wide/metrics.jsonl", "");
  ASSERT_EQ(report({dir_ / "wide", dir_ / "fast", "--output", dir_ / "two.html"}).status, 0);
  ASSERT_EQ(report({dir_ / "run", dir_ / "fast", "--output", dir_ / "steps.html"}).status, 0);
  EXPECT_EQ(read_bytes(dir_ / "steps.html").find("Plotted over epochs"), std::string::npos);
}

TEST_F(ReportRuns, DamagedLinesOfTheLogAreCounted) {
  const std::string path = dir_ / "run/metrics.jsonl", good = read_bytes(path);
  auto printed = [&](const std::string& log) {
    write_bytes(path, log);
    const Reported done = report({dir_ / "run", "--curves-only", "--csv", dir_ / "log.csv"});
    EXPECT_EQ(done.status, 0) << done.text;
    return done.text;
  };
  const std::string line = R"({"type": "train", "step": 5, "epoch": 1, "loss": 3.5, "loss_class": null})";
  for (const auto& [log, said] : std::vector<std::pair<std::string, std::string>>{
           {good, "metrics.jsonl: 2 lines are damaged and left out"},
           {"garbage\n", "metrics.jsonl: 1 line is damaged and left out"},
           {R"({"type": "train", "step": 5, "loss": "3.5"})"
            "\n" +
                line + "\n",
            "1 line is damaged"},
           {R"({"type": "train", "step": "5", "loss": 3.5})"
            "\n[]\n",
            "2 lines are damaged"},
           {line + "\n" + line.substr(0, 40), "note: " + path + ": its last line is cut off and left out"},
           {"", "note: " + path + ": the file is empty"}})
    EXPECT_NE(printed(log).find(said), std::string::npos) << said;
  EXPECT_EQ(printed(line + "\n").find("metrics.jsonl"), std::string::npos);
  write_bytes(path, "garbage\n");
  make_run("other", 1, 0.5);
  const Reported done = report({dir_ / "run", dir_ / "other", "--output", dir_ / "both.html"});
  EXPECT_NE(done.text.find("run/metrics.jsonl: 1 line is damaged"), std::string::npos) << done.text;
  EXPECT_NE(done.text.find("other/metrics.jsonl: 2 lines are damaged"), std::string::npos) << done.text;
}

TEST_F(ReportRuns, WhatCannotBeComparedIsSaid) {
  make_run("other", 1, 0.5);
  fs::create_directories(dir_ / "empty");
  fs::create_directory_symlink(dir_ / "run", dir_ / "link");
  const std::string metrics = read_bytes(dir_ / "run/metrics.jsonl");
  const std::string run = dir_ / "run", other = dir_ / "other";
  for (const auto& [words, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{run, run}, "is the same run as"},
           {{run, dir_ / "link"}, "is the same run as"},
           {{run, dir_ / "empty"}, "empty: is not a run folder"},
           {{run, dir_ / "none"}, "none: is not a run folder"},
           {{run, other, "--json", dir_ / "x.json"},
            "--json: several runs are compared by what they have logged"},
           {{run, other, "--label-errors", dir_ / "x"}, "--label-errors: several runs"},
           {{run, other, "--csv", dir_ / "other/metrics.jsonl"}, "--csv is the same file as a file of a run"},
           {{run, other, "--output", dir_ / "run/config.textproto"},
            "--output is the same file as a file of a run"},
           {{run, other, "--output", dir_ / "set/images/000001.png"}, "is the name of an image"},
           {{run, "--curves-only", "--label-errors", dir_ / "x"},
            "--curves-only: evaluates nothing, expected no"},
           {{run, "--curves-only", "--batch", "3", "--data", dir_ / "set", "--split", "test", "--iou",
             "bbox"},
            "--curves-only: evaluates nothing, expected no --data, --split, --batch-size, --iou\n"},
           {{run, "--detections", dir_ / "x.json", "--batch", "2"}, "--batch-size: no image is evaluated"},
           {{run, "--label-errors", dir_ / "x"}, "nothing was evaluated"},
           {{run, "--to", "yolo"}, "--label-errors"},
           {{run, "--suspicion", "1.5"}, "--suspicion: \"1.5\" is not valid"},
           {{run, "--label-errors", dir_ / "x", "--to", "csv"}, "--to"}}) {
    const Reported refused = report(words);
    EXPECT_EQ(refused.status, 2) << said;
    EXPECT_NE(refused.text.find(said), std::string::npos) << refused.text;
  }
  fs::remove(dir_ / "other/metrics.jsonl");
  EXPECT_NE(report({run, other, "--output", dir_ / "x.html"}).text.find("other/metrics.jsonl"),
            std::string::npos);
  EXPECT_EQ(read_bytes(dir_ / "run/metrics.jsonl"), metrics);
  EXPECT_FALSE(fs::exists(dir_ / "x.html") || fs::exists(dir_ / "x"));
}

}  // namespace
}  // namespace saccade
