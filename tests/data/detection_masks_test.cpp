// Tests detections with masks: their lists, their bytes, and the evaluators' states. coco_eval_test.cpp
// compares the metrics of masks with pycocotools'.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "data/evaluation/coco/coco_eval.h"
#include "data/evaluation/coco/coco_overlap.h"
#include "data/evaluation/confusion.h"
#include "data/evaluation/detection_curves.h"
#include "data/evaluation/detections.h"
#include "data/evaluation/evaluators.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

constexpr ImageSize kMaskSize{6, 10};

std::shared_ptr<const Mask> pixels_of(double x1, double y1, double x2, double y2,
                                      ImageSize size = kMaskSize) {
  return std::make_shared<const Mask>(Mask::from_box(size, {x1, y1, x2, y2}));
}
Detection masked(std::shared_ptr<const Mask> mask, double score = 0.5, int64_t image = 7) {
  return {
      .image_id = image, .category_id = 3, .bbox = {0, 0, 10, 6}, .score = score, .mask = std::move(mask)};
}
// An image with one rectangular object.
GroundTruth one_rectangle(bool crowd = false) {
  GroundTruth truth{.images = {{.id = 7, .file_name = "a.png", .width = 10, .height = 6}},
                    .categories = {{3, "cat"}}};
  truth.annotations = {{1, 7, 3, {0, 0, 10, 6}, 12, crowd}};
  Segmentation s;
  s.polygons = {{2, 1, 6, 1, 6, 4, 2, 4}};
  truth.annotations[0].segmentation = std::make_shared<const Segmentation>(s);
  return truth;
}
void expect_same_detection(const Detection& a, const Detection& b) {
  EXPECT_EQ(a.image_id, b.image_id);
  EXPECT_EQ(a.category_id, b.category_id);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(std::bit_cast<uint64_t>(a.bbox[i]), std::bit_cast<uint64_t>(b.bbox[i]));
  EXPECT_EQ(std::bit_cast<uint64_t>(a.score), std::bit_cast<uint64_t>(b.score));
  ASSERT_EQ(a.mask == nullptr, b.mask == nullptr);
  if (a.mask) {
    EXPECT_EQ(*a.mask, *b.mask);
  }
}

TEST(DetectionMasks, AreWrittenAndReadBack) {
  TestFolder dir;
  const std::vector<Detection> list{masked(pixels_of(2, 1, 6, 4)), masked(nullptr),
                                    masked(pixels_of(0, 0, 0, 0)), masked(pixels_of(0, 0, 10, 6))};
  EXPECT_EQ(list[2].mask->area(), 0);
  write_detections(dir / "d.json", list);
  const std::vector<Detection> back = read_detections(dir / "d.json", nullptr, nullptr, true);
  ASSERT_EQ(back.size(), list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    expect_same_detection(back[i], list[i]);
    EXPECT_FALSE(back[i].has_mask_area);
  }
  for (const Detection& d : read_detections(dir / "d.json")) EXPECT_EQ(d.mask, nullptr) << "not asked for";
}

TEST(DetectionMasks, TrainingSaysWhichAreMissing) {
  GroundTruth truth = one_rectangle();
  EXPECT_EQ(coco::notes_on_masks_to_learn(truth, "a.json"), std::vector<std::string>());
  truth.annotations.push_back({2, 7, 3, {0, 0, 5, 6}, 30, false});
  EXPECT_EQ(coco::notes_on_masks_to_learn(truth, "a.json").size(), 1U);
  truth.annotations.erase(truth.annotations.begin());
  EXPECT_THROW((void)coco::notes_on_masks_to_learn(truth, "a.json"), InputError);
}

TEST(DetectionMasks, GiveABoxWhereThereIsNone) {
  TestFolder dir;
  const std::string start = R"({"image_id":7,"category_id":3,"score":0.5,"segmentation":)";
  write_bytes(dir / "d.json", "[" + start + R"({"size":[6,10],"counts":[13,3,3,3,3,3,3,3,26]}},)" + start +
                                  R"([[2,1,6,1,6,4,2,4]]},)" + start + R"({"counts":[60],"size":[6,10]}},)" +
                                  start + R"([],"bbox":[1,2,3,4]},)" + start + R"(null,"bbox":[1,2,3,4]}])");
  const GroundTruth truth = one_rectangle();
  for (const bool masks : {false, true}) {
    const std::vector<Detection> found = read_detections(dir / "d.json", &truth, nullptr, masks);
    ASSERT_EQ(found.size(), 5u);
    for (size_t i : {0, 1}) {
      EXPECT_EQ(found[i].bbox, (std::array<double, 4>{2, 1, 4, 3}));
      EXPECT_EQ(*found[i].mask, *pixels_of(2, 1, 6, 4));
      EXPECT_TRUE(found[i].has_mask_area) << "as pycocotools has it of lists without boxes";
    }
    EXPECT_EQ(found[2].bbox, (std::array<double, 4>{}));
    EXPECT_EQ(found[2].mask->area(), 0);
    for (size_t i : {3, 4}) {
      EXPECT_EQ(found[i].mask, nullptr);
      EXPECT_EQ(found[i].bbox, (std::array<double, 4>{1, 2, 3, 4}));
    }
  }
}

TEST(DetectionMasks, FaultsNameTheEntry) {
  TestFolder dir;
  const std::string path = dir / "d.json",
                    start = R"([{"image_id":7,"category_id":3,"bbox":[1,2,3,4],"score":0.5,"segmentation":)";
  const GroundTruth truth = one_rectangle();
  auto error = [&](const std::string& segmentation, const GroundTruth* of) {
    write_bytes(path, start + segmentation + "}]");
    return input_error([&] { read_detections(path, of, nullptr, true); });
  };
  for (const char* fault : {"7", "{}", R"({"size":[6,10]})", R"({"counts":[60]})",
                            R"({"size":[6],"counts":[60]})", R"({"size":[6,10],"counts":[59]})",
                            R"({"size":[6,10],"counts":[70]})", R"({"size":[6,10],"counts":[-1,61]})",
                            R"({"size":[0,10],"counts":[]})", R"({"size":[6,10],"counts":"~"})",
                            R"({"size":[6,10],"counts":{}})", R"({"size":[1e9,1e9],"counts":"0"})",
                            R"({"size":[9223372036854775807,9223372036854775807],"counts":"0"})", "[7]",
                            "[[1,2,3]]", R"([["a"]])", "[[1,2,3,4,5,1e300]]"}) {
    const std::string said = error(fault, &truth);
    EXPECT_TRUE(said.starts_with(path + ": entry 1: ")) << fault << ": " << said;
    EXPECT_EQ(said.find('\n'), said.npos);
  }
  EXPECT_NE(error("[[1,1,3,1,3,3]]", nullptr).find("entry 1: its polygons need an image of known size"),
            std::string::npos);
  GroundTruth unsized = truth;
  unsized.images[0].width = unsized.images[0].height = 0;
  EXPECT_NE(error("[[1,1,3,1,3,3]]", &unsized).find("entry 1: its polygons need an image of known size"),
            std::string::npos);
}

// The same holds for annotations.
TEST(DetectionMasks, PolygonsOfFewPointsAreLeftOut) {
  TestFolder dir;
  const GroundTruth truth = one_rectangle();
  const auto read = [&](const std::string& polygons, std::vector<std::string>& notes) {
    write_bytes(
        dir / "d.json",
        R"([{"image_id":7,"category_id":3,"bbox":[1,2,3,4],"score":0.5,"segmentation":)" + polygons + "}]");
    return read_detections(dir / "d.json", &truth, &notes, true).at(0).mask->area();
  };
  std::vector<std::string> notes;
  EXPECT_EQ(read("[[1,1,3,1,3,3,1,3]]", notes), 4);
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(read("[[1,1,3,1,3,3,1,3],[5,5,6,6]]", notes), 4);
  EXPECT_EQ(read("[[1,2,3,4],[]]", notes), 0);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("1 polygon has fewer than three points and is left out, for example in entry 1"),
            std::string::npos);
  EXPECT_NE(notes[1].find("2 polygons have"), std::string::npos);
}

TEST(DetectionMasks, OverlapByPixels) {
  const MetricOptions masks{.iou = IouType::kMasks};
  auto ap50 = [&](const Mask& mask, bool crowd = false) {
    return evaluate_coco(one_rectangle(crowd), std::vector{masked(std::make_shared<const Mask>(mask))},
                         "d.json", masks)
        .AP50;
  };
  EXPECT_NEAR(ap50(*pixels_of(2, 1, 6, 4)), 1, 1e-12);
  EXPECT_NEAR(ap50(*pixels_of(2, 1, 6, 3)), 1, 1e-12) << "8 of 12 pixels";
  EXPECT_EQ(ap50(*pixels_of(2, 1, 6, 2)), 0) << "4 of 12 pixels";
  EXPECT_EQ(ap50(*pixels_of(6, 1, 10, 4)), 0) << "they touch";
  EXPECT_EQ(ap50(*pixels_of(0, 0, 0, 0)), 0) << "empty";
  EXPECT_EQ(ap50(*pixels_of(2, 1, 6, 4), true), -1) << "crowds are no objects";
  // Areas of detections are those of masks: the unmatched one is of 4 pixels,
  // so it counts among the small ones.
  MetricOptions small = masks;
  small.areas = {{"few", 0, 4}, {"many", 5, 60}};
  const std::vector<Detection> two{masked(pixels_of(8, 4, 10, 6), 0.9), masked(pixels_of(2, 1, 6, 4), 0.8)};
  EXPECT_NEAR(evaluate_coco(one_rectangle(), two, "d.json", small).AP_of_areas[1], 1, 1e-12);
  EXPECT_NEAR(evaluate_coco(one_rectangle(), two, "d.json", small).AP, 0.5, 1e-12);
}

TEST(DetectionMasks, CurvesAndPairsGoByPixelsToo) {
  // Its box is the object's, its pixels are not.
  const std::vector<Detection> found{masked(pixels_of(0, 4, 10, 6))};
  const ConfusionMatrix boxes = confusion_matrix(one_rectangle(), found, 0),
                        masks = confusion_matrix(one_rectangle(), found, 0, 0.5, nullptr, IouType::kMasks);
  EXPECT_EQ(boxes.counts, (std::vector<std::vector<int64_t>>{{1, 0}, {0, 0}}));
  EXPECT_EQ(masks.counts, (std::vector<std::vector<int64_t>>{{0, 1}, {1, 0}}));
  EXPECT_EQ(detection_curves(one_rectangle(), found, 0).best.f1, 1);
  EXPECT_EQ(detection_curves(one_rectangle(), found, 0, "d", {.iou = IouType::kMasks}).best.f1, 0);
  // For a crowd, the fraction of the detection that it covers counts.
  const std::vector<Detection> inside{masked(pixels_of(2, 1, 4, 2))};
  EXPECT_EQ(confusion_matrix(one_rectangle(true), inside, 0, 0.5, nullptr, IouType::kMasks).counts,
            (std::vector<std::vector<int64_t>>{{0, 0}, {0, 0}}));
  // A crowd without a mask is as large as its box.
  GroundTruth crowd = one_rectangle(true);
  crowd.annotations[0].bbox = {0, 0, 6, 3};
  crowd.annotations[0].segmentation.reset();
  const std::vector<Detection> beside{masked(pixels_of(6, 3, 10, 6))};
  for (const auto& [list, counted] : {std::pair{inside, 0}, {beside, 1}})
    EXPECT_EQ(confusion_matrix(crowd, list, 0, 0.5, nullptr, IouType::kMasks).counts,
              (std::vector<std::vector<int64_t>>{{0, 0}, {counted, 0}}));
}

TEST(DetectionMasks, WhatHasNoMaskIsNamed) {
  const MetricOptions masks{.iou = IouType::kMasks};
  auto error = [&](const GroundTruth& truth, const Detection& second) {
    const std::vector<Detection> found{masked(pixels_of(2, 1, 6, 4)), second};
    return input_error([&] { evaluate_coco(truth, found, "d.json", masks); });
  };
  GroundTruth truth = one_rectangle();
  EXPECT_EQ(error(truth, masked(pixels_of(0, 0, 1, 1))), "no error");
  EXPECT_EQ(error(truth, masked(nullptr)),
            "d.json: entry 2 (image 7): has no segmentation, expected one, as masks are evaluated");
  EXPECT_EQ(error(truth, masked(pixels_of(0, 0, 1, 1, {10, 6}))),
            "d.json: entry 2 (image 7): mask: it is 6 x 10, but its image is 10 x 6");
  truth.annotations[0].segmentation.reset();
  EXPECT_EQ(
      error(truth, masked(pixels_of(0, 0, 1, 1))),
      "annotations: annotation 1 (image 7, a.png) has no mask; expected one for every object, as masks are "
      "evaluated (saccade data check --masks --fix OUT makes such objects crowds)");
  truth.annotations[0].image_id = 8;  // its image does not exist
  EXPECT_EQ(error(truth, masked(pixels_of(0, 0, 1, 1))), "no error");
  truth = one_rectangle();
  truth.images[0].width = truth.images[0].height = 0;
  EXPECT_EQ(error(truth, masked(pixels_of(0, 0, 1, 1))),
            "annotations: annotation 1 (image 7): its image has no width and height, which masks need");
  truth = one_rectangle();
  Segmentation other;
  other.runs = *pixels_of(0, 0, 1, 1, {6, 9});
  truth.annotations[0].segmentation = std::make_shared<const Segmentation>(other);
  EXPECT_EQ(error(truth, masked(pixels_of(0, 0, 1, 1))),
            "annotations: annotation 1 (image 7): mask: it is 9 x 6, but its image is 10 x 6");
  // If ids are made up, the message names the place in the file.
  truth.annotations[0].place = {truth.add_file("labels/7.txt").file, 3};
  EXPECT_EQ(error(truth, masked(pixels_of(0, 0, 1, 1))),
            "labels/7.txt: line 3: mask: it is 9 x 6, but its image is 10 x 6");
}

TEST(DetectionBytes, AreTheSameDetections) {
  std::vector<Detection> list{masked(pixels_of(2, 1, 6, 4), 1.0 / 3), masked(nullptr, -0.0),
                              masked(pixels_of(0, 0, 0, 0)), masked(pixels_of(0, 0, 3, 6), 1, -5)};
  list[1].bbox = {0.1, -1e-300, std::numeric_limits<double>::infinity(), std::nan("")};
  list[2].has_mask_area = true;
  EXPECT_TRUE(detections_of(to_bytes({})).empty());
  for (size_t cut = 0; cut <= list.size(); ++cut) {
    const std::span all(list);
    const std::vector<Detection> back = detections_of(to_bytes(all.first(cut)) + to_bytes(all.subspan(cut)));
    ASSERT_EQ(back.size(), list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      expect_same_detection(back[i], list[i]);
      EXPECT_EQ(back[i].has_mask_area, list[i].has_mask_area);
    }
  }
  EXPECT_THROW(detections_of(to_bytes(list).substr(0, 50)), Error);
}

// Checks that an evaluator makes the same of predictions as a whole and in parts from other processes.
void expect_same_in_parts(const EvaluatorSpec& spec, const EvaluatorSpec::Options& options,
                          const std::vector<Predicted>& predictions) {
  const auto whole = spec.start(options);
  for (const Predicted& p : predictions) whole->add(p);
  const Evaluation wanted = whole->result();
  for (size_t cut = 0; cut <= predictions.size(); ++cut) {
    const auto first = spec.start(options), second = spec.start(options), all = spec.start(options);
    for (size_t i = 0; i < predictions.size(); ++i) (i < cut ? first : second)->add(predictions[i]);
    all->merge(first->state() + second->state());
    first->merge(second->state());
    for (const Evaluation& got : {all->result(), first->result()}) {
      EXPECT_EQ(got.metrics, wanted.metrics) << spec.name << ", " << cut;
      EXPECT_EQ(got.of_classes, wanted.of_classes);
      EXPECT_EQ(got.table, wanted.table);
      EXPECT_EQ(got.json, wanted.json);
      EXPECT_EQ(got.notes, wanted.notes);
    }
  }
}

TEST(Evaluators, GiveTheFiguresOfBoxesAndMasks) {
  const GroundTruth truth = one_rectangle();
  auto figures = [&](IouType iou) {
    const auto evaluator =
        evaluators("detection").find("coco").start({.truth = &truth, .metric_options = {.iou = iou}});
    evaluator->add({.detections = {masked(pixels_of(0, 4, 10, 6))}});
    return evaluator->result();
  };
  const Evaluation boxes = figures(IouType::kBoxes), masks = figures(IouType::kMasks),
                   both = figures(IouType::kBoth);
  Metrics wanted = boxes.metrics;
  for (const auto& [name, value] : masks.metrics) wanted.emplace_back("segm_" + name, value);
  EXPECT_EQ(both.metrics, wanted);
  EXPECT_EQ(both.of_classes.size(), 2u);
  EXPECT_EQ(both.of_classes.at(0).first, "AP/cat");
  EXPECT_EQ(both.of_classes.at(1), (std::pair<std::string, double>{"segm_AP/cat", 0}));
  for (const auto& [name, value] : wanted)
    EXPECT_NE(both.json.find(fmt::format("\n  \"{}\": {},", name, value)), std::string::npos) << both.json;
  EXPECT_NE(both.json.find("\"segm_AP_by_iou\": [0, "), std::string::npos);
  EXPECT_NE(both.json.find(", \"segm_AP\": 0, \"segm_AP50\": 0, "), std::string::npos);
}

TEST(Evaluators, GoOnFromStates) {
  const GroundTruth truth = one_rectangle();
  std::vector<Predicted> found;
  for (double score : {0.9, 0.5, 0.7})
    found.push_back({.detections = {masked(pixels_of(2, 1, 6, 2 + score), score),
                                    masked(pixels_of(2, 1, 6, 4), score / 3)}});
  for (const IouType iou : {IouType::kBoxes, IouType::kMasks, IouType::kBoth})
    for (const auto& [name, spec] : evaluators("detection").all())
      expect_same_in_parts(spec, {.truth = &truth, .per_class = true, .metric_options = {.iou = iou}}, found);
  const std::vector<float> logits{0.1F, 0.7F, 0.3F, -1, 1e-3F, 0.7F, 2, 2, 5, 0.3F, 0.7F, 1, 0};
  std::vector<Predicted> guesses;
  for (size_t i = 0; i < 6; ++i)
    guesses.push_back({.logits = std::span(logits).subspan(i, 7), .label = static_cast<int64_t>(i)});
  for (const auto& [name, spec] : evaluators("classification").all()) expect_same_in_parts(spec, {}, guesses);
}

// pycocotools reads them, too.
TEST(Detections, OddNumbersAreNoted) {
  TestFolder dir;
  write_bytes(dir / "d.json", R"([{"image_id":1,"category_id":1,"bbox":[1,1,2,2],"score":1},)"
                              R"({"image_id":1,"category_id":1,"bbox":[1,1,-3,2],"score":0.5},)"
                              R"({"image_id":1,"category_id":1,"bbox":[1,1,2,2],"score":1.7},)"
                              R"({"image_id":1,"category_id":1,"bbox":[1,1,2,2],"score":-1}])");
  std::vector<std::string> notes;
  EXPECT_EQ(read_detections(dir / "d.json", nullptr, &notes).size(), 4u);
  EXPECT_EQ(
      notes,
      (std::vector<std::string>{
          dir / "d.json" + ": 1 of 4 entries has a box with a negative width or height, for example entry 2",
          dir / "d.json" + ": 2 of 4 entries have scores that are not between 0 and 1, for example 1.7 in "
                           "entry 3; metrics only compare scores"}));
}

}  // namespace
}  // namespace saccade
