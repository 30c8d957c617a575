// Tests labels that detections contradict: each kind alone, and planted errors of all kinds among labels that
// are right.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "data/evaluation/label_errors.h"

namespace saccade {
namespace {

using Bbox = std::array<double, 4>;

constexpr int64_t kCat = 3, kDog = 7;

class LabelErrors : public testing::Test {
 protected:
  LabelErrors() {
    truth_.categories = {{kCat, "cat"}, {kDog, "dog"}};
    for (int64_t id = 1; id <= 2; ++id) {
      ImageInfo image;
      image.id = 10 * id;
      image.file_name = std::to_string(id) + ".png";
      image.width = image.height = 400;
      truth_.images.push_back(image);
    }
    // Correct: a cat and a dog that are found, and cats with low scores, of which a model is less sure.
    for (const double x : {0.0, 60.0, 120.0}) {
      label(kCat, {x, 300, 50, 50}, 20);
      find(kCat, {x + 1, 300, 50, 50}, 0.3, 20);
      label(kDog, {x, 200, 50, 50}, 20);
      find(kDog, {x, 201, 50, 50}, 0.9, 20);
    }
  }
  int64_t label(int64_t category, const Bbox& bbox, int64_t image = 10) {
    Annotation a;
    a.id = std::ssize(truth_.annotations) + 1;
    a.image_id = image;
    a.category_id = category;
    a.bbox = bbox;
    a.area = bbox[2] * bbox[3];
    truth_.annotations.push_back(a);
    return a.id;
  }
  void find(int64_t category, const Bbox& bbox, double score, int64_t image = 10) {
    finds_.push_back({image, category, bbox, score});
  }
  std::vector<LabelError> errors(double least = 0.5) { return find_label_errors(truth_, finds_, least); }
  // Returns the only error, such as "wrong_class 7 dog", or "none".
  std::string only_error() {
    const auto all = errors();
    if (all.empty()) return "none";
    std::string text;
    for (const LabelError& e : all) {
      text += text.empty() ? "" : ", ";
      text += std::string(word_of(e.kind)) + " " + (e.label ? std::to_string(e.label->id) : "-") + " " +
              (e.found ? e.found->category_id == kCat ? "cat" : "dog" : "-");
    }
    return text;
  }

  GroundTruth truth_;
  std::vector<Detection> finds_;
};

TEST_F(LabelErrors, LabelsThatAreFoundAreNone) { EXPECT_EQ(only_error(), "none"); }

TEST_F(LabelErrors, WhatNoLabelSaysIsMissing) {
  find(kDog, {0, 0, 40, 40}, 0.85);
  find(kDog, {2, 2, 40, 40}, 0.8);  // the same once more
  EXPECT_EQ(only_error(), "missing - dog");
  EXPECT_NEAR(errors()[0].suspicion, 0.85 / 0.9, 1e-12);
  EXPECT_EQ(errors()[0].image, 0u);
}

// A score counts relative to those that its class is usually found with.
TEST_F(LabelErrors, LowScoresOfAClassCountAsMuch) {
  find(kCat, {0, 0, 40, 40}, 0.28);
  find(kDog, {100, 0, 40, 40}, 0.28);
  EXPECT_EQ(only_error(), "missing - cat");
}

TEST_F(LabelErrors, SureFindsOfAnotherClassAccuseTheLabel) {
  const int64_t id = label(kDog, {0, 0, 40, 40});
  find(kCat, {1, 1, 40, 40}, 0.3);
  find(kDog, {1, 1, 40, 40}, 0.2);
  EXPECT_EQ(only_error(), "wrong_class " + std::to_string(id) + " cat");
  // If a detection supports the label as well, there is no error.
  find(kDog, {0, 1, 40, 40}, 0.8);
  EXPECT_EQ(only_error(), "none");
}

TEST_F(LabelErrors, FindsBesideTheLabelMoveIt) {
  const int64_t id = label(kDog, {20, 0, 40, 40});
  find(kDog, {0, 0, 40, 40}, 0.9);  // IoU 1/3
  EXPECT_EQ(only_error(), "wrong_box " + std::to_string(id) + " dog");
  EXPECT_NEAR(errors()[0].iou, 1.0 / 3, 1e-12);
  truth_.annotations.back().bbox[0] = 4;  // IoU 0.82
  EXPECT_EQ(only_error(), "none");
}

TEST_F(LabelErrors, LabelsThatNobodyFindsAreTold) {
  const int64_t id = label(kDog, {0, 0, 40, 40});
  EXPECT_EQ(only_error(), "not_found " + std::to_string(id) + " -");
  find(kCat, {0, 0, 40, 40}, 0.05);  // a little
  EXPECT_EQ(only_error(), "not_found " + std::to_string(id) + " -");
}

// A person on a horse: each detection belongs to the label of its class.
TEST_F(LabelErrors, ObjectsOfTwoClassesInOnePlaceAreNone) {
  label(kDog, {0, 0, 40, 40});
  label(kCat, {0, 0, 40, 44});
  find(kDog, {0, 1, 40, 44}, 0.9);
  find(kCat, {0, 0, 40, 40}, 0.3);
  EXPECT_EQ(only_error(), "none");
}

TEST_F(LabelErrors, CrowdsAreNotJudged) {
  label(kDog, {0, 0, 100, 100});
  truth_.annotations.back().iscrowd = true;
  EXPECT_EQ(only_error(), "none");
  find(kDog, {10, 10, 20, 20}, 0.9);  // is in it
  EXPECT_EQ(only_error(), "none");
  find(kDog, {90, 90, 40, 40}, 0.9);
  EXPECT_EQ(only_error(), "missing - dog");
}

TEST_F(LabelErrors, NothingIsMadeOfNothing) {
  finds_.push_back({99, kDog, {0, 0, 9, 9}, 1});  // of an unknown image
  finds_.push_back({10, 1234, {0, 0, 9, 9}, 1});  // of an unknown class
  find(kDog, {0, 0, 0, 0}, 0.9);                  // without an area: missing, but no crash
  label(kDog, {5, 5, 0, 0});
  EXPECT_EQ(errors().size(), 2u);
  finds_.clear();
  EXPECT_EQ(errors().size(), truth_.annotations.size()) << "each label is found by nobody";
  truth_.annotations.clear();
  EXPECT_TRUE(errors(0).empty());
  find(kDog, {0, 0, 9, 9}, 0.4);  // no label says how sure the model usually is
  EXPECT_TRUE(errors().empty());
  EXPECT_EQ(errors(0.3).size(), 1u);
}

TEST_F(LabelErrors, TheMostSuspiciousAreFirst) {
  for (const double score : {0.5, 0.9, 0.7}) find(kDog, {400 * score - 150, 0, 40, 40}, score);
  const auto all = errors();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[0].suspicion > all[1].suspicion && all[1].suspicion > all[2].suspicion);
  EXPECT_EQ(errors(0.9).size(), 1u);
}

// 20 of each kind are planted among 1,200 labels, which a model nearly finds: exactly these are reported.
TEST(LabelErrorsPlanted, AreFoundAndNothingElse) {
  std::mt19937 random(5);
  auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random()) / 4294967296.0;
  };
  GroundTruth truth{.images = {}, .annotations = {}, .categories = {{1, "a"}, {2, "b"}, {3, "c"}}};
  std::vector<Detection> finds;
  for (int64_t image = 1; image <= 60; ++image) {
    truth.images.push_back({image, std::to_string(image), 500, 400});
    for (int64_t k = 0; k < 20; ++k) {
      const double x = static_cast<double>(k % 5) * 100 + between(0, 20),
                   y = static_cast<double>(k / 5) * 100 + between(0, 20);
      const Bbox bbox{x, y, between(40, 70), between(40, 70)};
      Annotation a;
      a.id = std::ssize(truth.annotations) + 1;
      a.image_id = image;
      a.category_id = 1 + static_cast<int64_t>(random() % 3);
      a.bbox = bbox;
      truth.annotations.push_back(a);
      // Classes that the model is sure of, and one that it is not.
      const double sure = a.category_id == 3 ? 0.3 : 0.8;
      finds.push_back(
          {image,
           a.category_id,
           {x + between(-2, 2), y + between(-2, 2), bbox[2] + between(-2, 2), bbox[3] + between(-2, 2)},
           sure + between(-0.1, 0.1)});
      finds.push_back({image, 1 + static_cast<int64_t>(random() % 3), bbox, between(0, 0.1)});  // not meant
    }
  }
  std::map<int64_t, LabelErrorKind> planted;  // by annotation; of missing ones by -image
  std::set<size_t> dropped;
  for (size_t i = 0; i < 60; ++i) {
    Annotation& a = truth.annotations[i * 19 + 3];
    if (i < 20) {
      dropped.insert(i * 19 + 3);
    } else if (i < 40) {
      a.category_id = a.category_id % 3 + 1;
      planted[a.id] = LabelErrorKind::kWrongClass;
    } else {
      a.bbox[i % 2] += 0.5 * a.bbox[2 + i % 2];
      planted[a.id] = LabelErrorKind::kWrongBox;
    }
  }
  std::vector<Bbox> taken;
  for (auto it = dropped.rbegin(); it != dropped.rend(); ++it) {
    taken.push_back(truth.annotations[*it].bbox);
    truth.annotations.erase(truth.annotations.begin() + static_cast<std::ptrdiff_t>(*it));
  }
  size_t missing = 0;
  for (const LabelError& e : find_label_errors(truth, finds, 0.5)) {
    if (e.kind == LabelErrorKind::kMissing) {
      ++missing;
      EXPECT_TRUE(std::ranges::any_of(
          taken, [&](const Bbox& b) { return iou(box_of_corner(b), box_of_corner(e.found->bbox)) > 0.8; }));
      continue;
    }
    const auto it = planted.find(e.label->id);
    ASSERT_NE(it, planted.end()) << word_of(e.kind) << " " << e.label->id << " " << e.suspicion;
    EXPECT_EQ(e.kind, it->second) << e.label->id;
    planted.erase(it);
  }
  EXPECT_EQ(missing, 20u);
  EXPECT_TRUE(planted.empty()) << planted.size() << " are not found";
}

}  // namespace
}  // namespace saccade
