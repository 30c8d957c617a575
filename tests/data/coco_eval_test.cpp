// Tests the evaluator against pycocotools: random cases in tests/golden/coco_eval
// (scripts/golden/data/make_coco_eval.py) and, if they exist, the published ones in ../shared/data/coco_eval.
// All agree to 1e-9: both sum the same doubles, in another order.
#include "data/evaluation/coco/coco_eval.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "core/formats/json.h"
#include "core/tensor/philox.h"
#include "data/evaluation/coco/coco_parts.h"
#include "data/evaluation/detections.h"
#include "data/formats/coco/coco.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

constexpr double kTolerance = 1e-9;

struct Expected {
  std::map<std::string, double> stats;
  std::vector<double> by_iou;
  std::map<std::string, std::map<std::string, double>> categories;
  std::map<std::string, double> of_first_two;  // catIds; empty: not known
  MetricOptions own_options;
  std::map<std::string, double> own;  // with them
};

Expected read_expected(const std::string& path) {
  JsonFile json(path);
  Expected e;
  auto numbers = [&](JsonValue object, std::map<std::string, double>& out) {
    json.fields(object, [&](std::string_view key, JsonValue v) { json.read(v, out[std::string(key)]); });
  };
  json.root_fields([&](std::string_view key, JsonValue value) {
    if (key == "stats") {
      numbers(value, e.stats);
    } else if (key == "of_first_two_categories") {
      numbers(value, e.of_first_two);
    } else if (key == "AP_by_iou_0.50_to_0.95") {
      json.elements(value, [&](JsonValue v) { json.read(v, e.by_iou.emplace_back()); });
    } else if (key == "per_category") {
      json.fields(value,
                  [&](std::string_view id, JsonValue v) { numbers(v, e.categories[std::string(id)]); });
    } else if (key == "own") {
      json.fields(value, [&](std::string_view name, JsonValue v) {
        std::string ranges;
        if (name == "max_detections") json.read(v, e.own_options.max_detections.emplace());
        if (name == "area_ranges" && json.read(v, ranges)) e.own_options.areas = parse_area_ranges(ranges);
        if (name == "stats") numbers(v, e.own);
      });
    }
  });
  return e;
}

std::map<std::string, double> by_name(const CocoMetrics& f) {
  const Metrics named = named_metrics(f);
  return {named.begin(), named.end()};
}

void expect_equal(const std::string& gt, const std::string& dt, const std::string& expected_path,
                  IouType iou = IouType::kBoxes) {
  SCOPED_TRACE(dt);
  const bool masks = iou == IouType::kMasks;
  const GroundTruth truth =
      read_ground_truth({.annotations = gt, .images = "", .wants = {.boxes = true, .masks = masks}});
  const std::vector<Detection> found = read_detections(dt, nullptr, nullptr, masks);
  CocoMetrics f = evaluate_coco(truth, found, dt, {.iou = iou});
  Expected e = read_expected(expected_path);
  e.own_options.iou = iou;
  ASSERT_EQ(e.stats.size(), 12u);
  auto got = by_name(f);
  for (auto& [name, value] : e.stats) EXPECT_NEAR(got.at(name), value, kTolerance) << name;
  if (!e.own.empty()) {  // with other parameters
    const CocoMetrics own = evaluate_coco(truth, found, dt, e.own_options);
    auto got_own = by_name(own);
    EXPECT_EQ(got_own.size(), 6 + 2 * e.own_options.areas.size());
    for (auto& [name, value] : e.own) EXPECT_NEAR(got_own.at(name), value, kTolerance) << name;
  }
  ASSERT_EQ(e.by_iou.size(), f.AP_by_iou.size());
  for (size_t t = 0; t < e.by_iou.size(); ++t) EXPECT_NEAR(f.AP_by_iou[t], e.by_iou[t], kTolerance) << t;
  ASSERT_FALSE(e.categories.empty());
  size_t compared = 0;
  for (const CocoClassMetrics& c : f.classes) {
    auto it = e.categories.find(std::to_string(c.category_id));
    if (it == e.categories.end()) {
      EXPECT_EQ(c.AP, -1) << c.category_id;  // files may leave out categories without objects
      continue;
    }
    ++compared;
    EXPECT_NEAR(c.AP, it->second.at("AP"), kTolerance) << c.category_id;
    EXPECT_NEAR(c.AP50, it->second.at("AP50"), kTolerance) << c.category_id;
    EXPECT_NEAR(c.AR_100, it->second.at("AR_100"), kTolerance) << c.category_id;
  }
  EXPECT_EQ(compared, e.categories.size());
}

// Compares --classes with pycocotools' catIds; all images stay.
void expect_equal_of_two(const std::string& gt, const std::string& dt, const std::string& expected_path) {
  GroundTruth truth = read_ground_truth({gt, ""});
  std::vector<Detection> detections = read_detections(dt);
  const size_t images = truth.images.size();
  const std::vector<std::string> notes = truth.notes;
  keep_classes({truth.categories[1].name, truth.categories[0].name}, truth, detections);
  EXPECT_EQ(truth.images.size(), images);
  EXPECT_EQ(truth.notes, notes) << "what is left out is returned";
  const CocoMetrics f = evaluate_coco(truth, detections, dt);
  ASSERT_EQ(f.classes.size(), 2u);
  EXPECT_EQ(f.classes[0].category_id, 1) << "ids stay";
  auto got = by_name(f);
  const Expected e = read_expected(expected_path);
  ASSERT_EQ(e.of_first_two.size(), 12u);
  for (auto& [name, value] : e.of_first_two) EXPECT_NEAR(got.at(name), value, kTolerance) << name;
}

const std::string kCocoGolden = SACCADE_SOURCE_DIR "/tests/golden/coco_eval/";

class RandomCase : public testing::TestWithParam<const char*> {};
TEST_P(RandomCase, EqualsPycocotools) {
  std::string base = kCocoGolden + GetParam();
  expect_equal(base + ".gt.json", base + ".dt.json", base + ".expected.json");
  expect_equal_of_two(base + ".gt.json", base + ".dt.json", base + ".expected.json");
}
TEST(CocoEval, MasksEqualPycocotools) {
  const std::string base = kCocoGolden + "masks";
  expect_equal(base + ".gt.json", base + ".dt.json", base + ".expected.json", IouType::kMasks);
  // The first entry has no box, so areas are those of masks here as well.
  expect_equal(base + ".gt.json", base + ".dt.json", base + "_boxes.expected.json");
}
INSTANTIATE_TEST_SUITE_P(CocoEval, RandomCase,
                         testing::Values("ties", "crowds", "many", "large_ids", "annotation_zero", "sparse"),
                         [](const auto& name) { return std::string(name.param); });

class PublishedCase : public testing::TestWithParam<const char*> {};
TEST_P(PublishedCase, EqualsPycocotools) {
  std::string folder = SACCADE_SOURCE_DIR "/../shared/data/coco_eval/" + std::string(GetParam());
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not on this machine";
  bool bbox = std::filesystem::exists(folder + "/dt_bbox.json");
  expect_equal(folder + "/gt.json", folder + (bbox ? "/dt_bbox.json" : "/dt.json"),
               folder + (bbox ? "/expected_bbox.json" : "/expected.json"));
}
INSTANTIATE_TEST_SUITE_P(CocoEval, PublishedCase,
                         testing::Values("cocoapi_val2014_100", "val2014_100_nocrowd_boxarea",
                                         "val2017_2299_one_image", "voc100_real_detector"),
                         [](const auto& name) { return std::string(name.param); });

GroundTruth one_object() {
  GroundTruth truth;
  truth.images = {{.id = 7}};
  truth.categories = {{3, "cat"}};
  truth.annotations = {{1, 7, 3, {10, 10, 50, 50}, 2500, false}};
  return truth;
}

TEST(CocoEval, PerfectAndNone) {
  std::vector<Detection> found{{7, 3, {10, 10, 50, 50}, 0.5}};
  CocoMetrics f = evaluate_coco(one_object(), found);
  EXPECT_NEAR(f.AP, 1, 1e-12);
  EXPECT_NEAR(f.AR_1, 1, 1e-12);
  EXPECT_EQ(f.AP_of_areas, (std::vector<double>{-1, f.AP, -1}));
  f = evaluate_coco(one_object(), {});
  EXPECT_EQ(f.AP, 0);
  EXPECT_EQ(f.AR_100, 0);
  f = evaluate_coco(GroundTruth{{{.id = 7}}, {}, {{3, "cat"}}}, found);
  EXPECT_EQ(f.AP, -1);
  f = evaluate_coco(GroundTruth{}, {});
  EXPECT_EQ(f.AP, -1);
  EXPECT_TRUE(f.classes.empty());
}

TEST(CocoEval, ACategoryWithoutObjectsHasNoFigures) {
  coco::Matches none;
  none.first_cell = {0, 0};
  none.areas = 4;
  const coco::CategoryCurve curve = coco::accumulate(none).at(0);
  ASSERT_EQ(curve.areas.size(), 4u);
  for (int t = 0; t < kCocoThresholds; ++t) {
    for (const coco::AreaCurve& area : curve.areas) {
      EXPECT_EQ(area.precision[t], -1);
      EXPECT_EQ(area.recall[t], -1);
    }
    EXPECT_EQ(curve.recall_1[t], -1);
    EXPECT_EQ(curve.recall_10[t], -1);
  }
}

TEST(CocoEval, AreaRangesAreNamesWithTwoEnds) {
  EXPECT_EQ(parse_area_ranges("small:0-1024,medium:1024-9216,large:9216-"), coco_areas());
  EXPECT_EQ(parse_area_ranges("a:.5-1e3"), (std::vector<AreaRange>{{"a", 0.5, 1000}}));
  EXPECT_EQ(parse_area_ranges("x_1:7-7,b:1e2-1e5"), (std::vector<AreaRange>{{"x_1", 7, 7}, {"b", 100, 1e5}}));
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "expected NAME:LOW-HIGH"},
           {"small", "expected NAME:LOW-HIGH"},
           {"small:", "expected NAME:LOW-HIGH"},
           {"small:5", "expected NAME:LOW-HIGH"},
           {"small:-5", "expected NAME:LOW-HIGH"},
           {"small:-5-6", "expected NAME:LOW-HIGH"},
           {"small:0-1,", "expected NAME:LOW-HIGH"},
           {"small:0-1 ", "expected NAME:LOW-HIGH"},
           {"small:0,5-1", "expected NAME:LOW-HIGH"},
           {"small:0-1e999", "expected NAME:LOW-HIGH"},
           {"small:nan-1", "expected NAME:LOW-HIGH"},
           {"small:0-inf", "expected NAME:LOW-HIGH"},
           {":0-1", "expected a name of letters"},
           {"1:0-1", "expected a name of letters"},
           {"all:0-1", "expected a name of letters"},
           {"a b:0-1", "expected a name of letters"},
           {"\xC3\xA9:0-1", "expected a name of letters"},
           {std::string(33, 'a') + ":0-1", "expected a name of letters"},
           {"a:9-8", "9 is more than 8"},
           {"a:0-1,b:0-1,a:1-2", "\"a\": two ranges have this name"}})
    EXPECT_NE(input_error([&] { parse_area_ranges(text); }).find(why), std::string::npos) << text;
}

TEST(CocoEval, UnknownCategoryIsANote) {
  std::vector<Detection> found{{7, 3, {10, 10, 50, 50}, 0.5}, {7, 99, {0, 0, 1, 1}, 0.9}};
  CocoMetrics f = evaluate_coco(one_object(), found, "d.json");
  EXPECT_NEAR(f.AP, 1, 1e-12);
  ASSERT_EQ(f.notes.size(), 1u);
  EXPECT_EQ(f.notes[0],
            "d.json: 1 of 2 entries is left out because its category_id (99) is not in the annotations");
}

TEST(CocoEval, Errors) {
  std::vector<Detection> stray{{7, 3, {0, 0, 1, 1}, 0.5}, {8, 3, {0, 0, 1, 1}, 0.5}};
  EXPECT_EQ(input_error([&] { evaluate_coco(one_object(), stray, "d.json"); }),
            "d.json: entry 2: image_id 8 is not in the annotations (1 of 2 entries has such an image_id)");
  stray[1] = {7, 3, {0, 0, 1, 1}, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_EQ(input_error([&] { evaluate_coco(one_object(), stray, "d.json"); }),
            "d.json: entry 2 (image 7): has a NaN");
}

TEST(CocoEval, Table) {
  CocoMetrics f = evaluate_coco(GroundTruth{}, {});
  f.AP = 0.5045806987249628;
  std::string text = coco_table(f);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.505");
  EXPECT_NE(text.find(" Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = -1.000\n"),
            std::string::npos);
  EXPECT_NE(text.find(" Average Recall     (AR) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = -1.000\n"),
            std::string::npos);
  EXPECT_NE(text.find(" Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=  1 ] = -1.000\n"),
            std::string::npos);
  EXPECT_NE(coco_json(f).find("\"AP\": 0.5045806987249628,"), std::string::npos);
}

TEST(CocoEval, ThreadCountChangesNothing) {
  Rng rng(3);
  GroundTruth truth;
  std::vector<Detection> found;
  auto box = [&] {
    return std::array<double, 4>{rng.uniform(0, 200), rng.uniform(0, 200), rng.uniform(5, 150),
                                 rng.uniform(5, 150)};
  };
  for (int c = 0; c < 4; ++c) truth.categories.push_back({c + 1, "c"});
  for (int i = 0; i < 60; ++i) {
    truth.images.push_back({.id = i});
    for (int k = 0; k < 5; ++k) {
      Annotation a{i * 5 + k + 1, i, 1 + rng.below(4), box(), 0, rng.below(8) == 0};
      a.area = a.bbox[2] * a.bbox[3];
      truth.annotations.push_back(a);
      for (int d = 0; d < 3; ++d) {
        Detection near{i, a.category_id, a.bbox, rng.uniform(0, 1)};
        for (double& v : near.bbox) v += rng.uniform(-4, 4);
        found.push_back(near);
      }
    }
  }
  int threads = omp_get_max_threads();
  std::string first;
  for (int n : {1, 2, 3, 8}) {
    omp_set_num_threads(n);
    std::string text = coco_json(evaluate_coco(truth, found), true);
    if (first.empty()) first = text;
    EXPECT_EQ(text, first) << n << " threads";
  }
  omp_set_num_threads(threads);
}

TEST(Detections, WriteAndReadBack) {
  TestFolder dir;
  std::vector<Detection> list{{1, 2, {0.1, -1e-7, 1e9, 3}, 1.0 / 3}, {int64_t{1} << 40, 90, {1, 2, 3, 4}, 1}};
  for (size_t count : {size_t{0}, list.size()}) {
    write_detections(dir / "d.json", std::span(list).first(count));
    auto back = read_detections(dir / "d.json");
    ASSERT_EQ(back.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(back[i].image_id, list[i].image_id);
      EXPECT_EQ(back[i].category_id, list[i].category_id);
      EXPECT_EQ(back[i].bbox, list[i].bbox);
      EXPECT_EQ(back[i].score, list[i].score);
    }
  }
}

TEST(Detections, Errors) {
  TestFolder dir;
  std::string path = dir / "d.json", good = R"({"image_id":1,"category_id":2,"bbox":[1,2,3,4],"score":0.5})";
  auto error = [&](const std::string& text) {
    write_bytes(path, text);
    return input_error([&] { read_detections(path); });
  };
  EXPECT_EQ(error("[" + good + "]"), "no error");
  EXPECT_EQ(error("[" + good + R"(,{"image_id":1,"category_id":2,"bbox":[1,2,3,4],"score":NaN}])"),
            path + ": entry 2: field \"score\" must be a finite number");
  EXPECT_EQ(error(R"([{"image_id":1,"category_id":2,"bbox":[1,2,3],"score":0.5}])"),
            path + ": entry 1: field \"bbox\" must be four finite numbers [x, y, width, height]");
  EXPECT_EQ(error(R"([{"image_id":"a","category_id":2,"bbox":[1,2,3,4],"score":0.5}])"),
            path + ": entry 1: field \"image_id\" must be an integer");
  EXPECT_EQ(error(R"([{"image_id":1,"bbox":[1,2,3,4],"score":0.5}])"),
            path + ": entry 1: field \"category_id\" is missing");
  EXPECT_EQ(error("[1]"), path + ": entry 1: must be an object");
  EXPECT_NE(error("[" + good + ",").find(path + ": "), std::string::npos);
  EXPECT_NE(error(R"({"images":[]})").find("must hold one JSON array"), std::string::npos);
  EXPECT_EQ(input_error([&] { read_detections(dir / "none.json"); }),
            (dir / "none.json") + ": cannot read the file: No such file or directory");
}

TEST(CocoEval, TellsWhatDoesNotFitTheAnnotations) {
  GroundTruth truth{.images = {{.id = 1, .file_name = "a", .width = 100, .height = 80}},
                    .categories = {{1, "a"}, {2, "b"}}};
  std::vector<Detection> detections;
  for (int i = 0; i < 40; ++i) {
    const double x = 30 + i, y = 20 + i;
    truth.annotations.push_back(
        {.id = i + 1, .image_id = 1, .category_id = 1 + i % 2, .bbox = {x, y, 20, 15}, .area = 300});
    detections.push_back({1, 1 + i % 2, {x, y, 20, 15}, 0.9});
  }
  EXPECT_TRUE(evaluate_coco(truth, detections).notes.empty());
  std::vector<Detection> other = detections;
  for (Detection& d : other) --d.category_id;
  const CocoMetrics shifted = evaluate_coco(truth, other, "d.json");
  ASSERT_EQ(shifted.notes.size(), 1u);
  EXPECT_EQ(shifted.notes[0],
            "d.json: 20 of 40 entries are left out because their category_id (0) is not in the annotations");
  other = detections;
  for (Detection& d : other) d.bbox[2] += d.bbox[0], d.bbox[3] += d.bbox[1];
  GroundTruth without_sizes = truth;
  without_sizes.images[0].width = without_sizes.images[0].height = 0;
  for (const GroundTruth& set : {truth, without_sizes}) {
    const CocoMetrics corners = evaluate_coco(set, other, "d.json");
    ASSERT_EQ(corners.notes.size(), 1u);
    EXPECT_NE(corners.notes[0].find("the boxes look like [x1, y1, x2, y2]"), std::string::npos);
  }
  EXPECT_TRUE(evaluate_coco(without_sizes, detections).notes.empty());
  other = detections;
  for (int i = 0; i < 7; ++i) other[static_cast<size_t>(i)].image_id = 5;
  EXPECT_EQ(input_error([&] { evaluate_coco(truth, other, "d.json"); }),
            "d.json: entry 1: image_id 5 is not in the annotations (7 of 40 entries have such an image_id)");
}

// With as many categories and images as a file may have, no step may be quadratic in them.
TEST(CocoEval, ManyCategories) {
  GroundTruth truth{.images = {{.id = 1, .file_name = "a", .width = 100, .height = 80}}};
  for (int64_t id = 65536; id-- > 0;) truth.categories.push_back({id, ""});
  std::reverse(truth.categories.begin(), truth.categories.begin() + 100);
  truth.categories[7].name = "x";
  const CocoMetrics metrics = evaluate_coco(truth, {});
  ASSERT_EQ(metrics.classes.size(), 65536u);
  EXPECT_EQ(metrics.classes[static_cast<size_t>(truth.categories[7].id)].name, "x");
}

// A list may name an image by its path or by the end of the path, but two names are never one image.
TEST(Detections, FindImagesByTheirNames) {
  TestFolder dir;
  const GroundTruth truth{.images = {{.id = 1, .file_name = "a/1.jpg"},
                                     {.id = 2, .file_name = "b/1.jpg"},
                                     {.id = 3, .file_name = "2.jpg"}}};
  const auto read = [&](const std::vector<std::string>& names) {
    std::string text = "[";
    for (const std::string& name : names)
      text += (text.size() > 1 ? "," : "") +
              (R"({"category_id":1,"bbox":[0,0,1,1],"score":1,"file_name":")" + name + "\"}");
    write_bytes(dir / "d.json", text + "]");
    std::vector<int64_t> ids;
    for (const Detection& d : read_detections(dir / "d.json", &truth)) ids.push_back(d.image_id);
    return ids;
  };
  EXPECT_EQ(read({"my/images/a/1.jpg", "b/1.jpg", "x/2.jpg", "x/2.jpg"}), (std::vector<int64_t>{1, 2, 3, 3}));
  for (const auto& [names, problem] : {std::pair(std::vector<std::string>{"1.jpg"}, "several images"),
                                       {{"c/1.jpg"}, "no image"},
                                       {{"train/2.jpg", "val/2.jpg"}, "both the image \"2.jpg\""}}) {
    const std::string message = input_error([&] { read(names); });
    EXPECT_NE(message.find(problem), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace saccade
