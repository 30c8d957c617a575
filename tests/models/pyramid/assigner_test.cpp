// Tests which candidates are assigned to which objects, and which of them are sampled.
#include "models/pyramid/max_iou_assigner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/tensor/philox.h"
#include "core/types/box.h"
#include "models/pyramid/sampler.h"

namespace saccade {
namespace {

using Corners = std::vector<float>;

// Against the square from 0 to 10 the IoU of the square from 0 to 10 high and `width` wide is width / 10.
Corners with_ious(const std::vector<float>& ious) {
  Corners boxes;
  for (float iou : ious) boxes.insert(boxes.end(), {0, 0, 10 * iou, 10});
  return boxes;
}
const Corners kSquare{0, 0, 10, 10};

TEST(MaxIouAssigner, HasTwoThresholds) {
  const MaxIouOptions options{.low_quality = false};
  EXPECT_EQ(assign_max_iou(with_ious({0.6f, 0.5f, 0.45f, 0.4f, 0.3f, 0}), kSquare, options),
            (std::vector<int32_t>{0, 0, kIgnored, kIgnored, kBackground, kBackground}));
  EXPECT_EQ(assign_max_iou(with_ious({0.6f, 0}), {}, options),
            (std::vector<int32_t>{kBackground, kBackground}));
  // With one threshold nothing is ignored.
  EXPECT_EQ(assign_max_iou(with_ious({0.5f, 0.49f}), kSquare, {.negative = 0.5, .low_quality = false}),
            (std::vector<int32_t>{0, kBackground}));
}

TEST(MaxIouAssigner, GivesAnObjectItsBestCandidatesAtLeast) {
  EXPECT_EQ(assign_max_iou(with_ious({0.2f, 0.3f, 0.3f}), kSquare, {}),
            (std::vector<int32_t>{kBackground, 0, 0}));
  EXPECT_EQ(assign_max_iou(with_ious({0.2f, 0.3f}), kSquare, {.least_quality = 0.35}),
            (std::vector<int32_t>{kBackground, kBackground}));
  // An object that no candidate overlaps, or that has no area, gets none.
  for (const Corners& object : {Corners{50, 50, 60, 60}, Corners{1, 1, 1, 1}})
    EXPECT_EQ(assign_max_iou(with_ious({0.2f, 0.3f}), object, {}),
              (std::vector<int32_t>{kBackground, kBackground}));
}

TEST(MaxIouAssigner, BreaksTies) {
  // Of equal objects the first gets what overlaps it enough, but a best candidate goes to the last.
  Corners two = kSquare;
  two.insert(two.end(), kSquare.begin(), kSquare.end());
  EXPECT_EQ(assign_max_iou(with_ious({0.9f, 0.8f}), two, {}), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(assign_max_iou(with_ious({0.9f, 0.8f}), two, {.low_quality = false}),
            (std::vector<int32_t>{0, 0}));
}

// Applies the rules in plain loops, in f64 and boxes of whole pixels.
std::vector<int32_t> assign_plainly(const Corners& candidates, const Corners& objects,
                                    const MaxIouOptions& o) {
  auto box = [](const Corners& b, size_t i) {
    return Box{b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3]};
  };
  const size_t count = candidates.size() / 4, K = objects.size() / 4;
  std::vector<int32_t> out(count);
  for (size_t i = 0; i < count; ++i) {
    size_t best = 0;
    for (size_t k = 1; k < K; ++k)
      if (iou(box(candidates, i), box(objects, k)) > iou(box(candidates, i), box(objects, best))) best = k;
    const double most = iou(box(candidates, i), box(objects, best));
    out[i] = most >= o.positive ? static_cast<int32_t>(best) : most < o.negative ? kBackground : kIgnored;
  }
  for (size_t k = 0; k < K; ++k) {
    double most = 0;
    for (size_t i = 0; i < count; ++i) most = std::max(most, iou(box(candidates, i), box(objects, k)));
    for (size_t i = 0; i < count; ++i)
      if (most > 0 && most >= o.least_quality && iou(box(candidates, i), box(objects, k)) == most)
        out[i] = static_cast<int32_t>(k);
  }
  return out;
}

TEST(MaxIouAssigner, DoesAsPlainLoops) {
  Rng rng(1);
  for (int round = 0; round < 20; ++round) {
    auto draw = [&](int64_t count, int64_t side) {
      Corners boxes;
      for (int64_t i = 0; i < count; ++i) {
        const auto x = static_cast<float>(rng.below(100)), y = static_cast<float>(rng.below(100));
        boxes.insert(boxes.end(), {x, y, x + 1 + static_cast<float>(rng.below(side)),
                                   y + 1 + static_cast<float>(rng.below(side))});
      }
      return boxes;
    };
    const Corners candidates = draw(1000, 40), objects = draw(1 + round, 40);
    for (const MaxIouOptions& options : {MaxIouOptions{}, MaxIouOptions{0.7, 0.3, true, 0.3}})
      EXPECT_EQ(assign_max_iou(candidates, objects, options), assign_plainly(candidates, objects, options));
  }
}

std::vector<int32_t> assigned(int64_t positives, int64_t negatives) {
  std::vector<int32_t> all(static_cast<size_t>(positives), 3);
  all.push_back(kIgnored);
  all.insert(all.end(), static_cast<size_t>(negatives), kBackground);
  return all;
}

TEST(Sampler, FillsWithBackground) {
  auto sizes = [](int64_t positives, int64_t negatives, const SamplerOptions& options) {
    const Sample s = sample_candidates(assigned(positives, negatives), options, 1, 2, "rpn");
    return std::pair(s.positives.size(), s.negatives.size());
  };
  EXPECT_EQ(sizes(200, 1000, {}), (std::pair<size_t, size_t>(128, 128)));
  EXPECT_EQ(sizes(20, 1000, {}), (std::pair<size_t, size_t>(20, 236)));
  EXPECT_EQ(sizes(20, 100, {}), (std::pair<size_t, size_t>(20, 100)));
  EXPECT_EQ(sizes(200, 3, {}), (std::pair<size_t, size_t>(128, 3)));
  EXPECT_EQ(sizes(0, 0, {}), (std::pair<size_t, size_t>(0, 0)));
  EXPECT_EQ(sizes(600, 900, {512, 0.25}), (std::pair<size_t, size_t>(128, 384)));
}

// The smallest numbers are taken. Of 20,003 candidates only a few are searched, of 300 all are.
TEST(Sampler, TakesTheSmallestNumbers) {
  constexpr int64_t kImage = int64_t{1} << 40 | 5;
  for (const auto& [negatives, options] : {std::pair{20003, SamplerOptions{}}, {300, {.count = 299}}}) {
    const std::vector<int32_t> all = assigned(0, negatives);
    const Sample sample = sample_candidates(all, options, 11, kImage, "rpn");
    std::vector<std::pair<uint64_t, int64_t>> drawn;
    for (int64_t at = 1; at <= negatives; ++at) {  // behind the one that is ignored
      const Philox bits =
          Philox::generate(mix_key(11, hash_name("rpn")), uint64_t{kImage}, static_cast<uint64_t>(at));
      drawn.emplace_back(uint64_t{bits.x[0]} << 32 | bits.x[1], at);
    }
    std::ranges::sort(drawn);
    std::set<int64_t> wanted;
    for (int64_t i = 0; i < options.count; ++i) wanted.insert(drawn[static_cast<size_t>(i)].second);
    EXPECT_TRUE(std::ranges::equal(sample.negatives, wanted)) << negatives;
  }
}

TEST(Sampler, DrawsByStepImageAndStage) {
  const std::vector<int32_t> all = assigned(300, 3000);
  auto draw = [&](uint64_t key, int64_t image, const char* stage) {
    return sample_candidates(all, {}, key, image, stage);
  };
  const Sample first = draw(1, 2, "rpn"), same = draw(1, 2, "rpn");
  EXPECT_EQ(first.positives, same.positives);
  EXPECT_EQ(first.negatives, same.negatives);
  EXPECT_NE(first.negatives, draw(2, 2, "rpn").negatives);
  EXPECT_NE(first.negatives, draw(1, 3, "rpn").negatives);
  EXPECT_NE(first.negatives, draw(1, 2, "rcnn.0").negatives);
  EXPECT_TRUE(std::ranges::is_sorted(first.negatives));
  const std::set<int64_t> distinct(first.negatives.begin(), first.negatives.end());
  EXPECT_EQ(distinct.size(), first.negatives.size());
  for (int64_t at : first.negatives) EXPECT_EQ(all[static_cast<size_t>(at)], kBackground);
  for (int64_t at : first.positives) EXPECT_EQ(all[static_cast<size_t>(at)], 3);
  // All have the same chance: in 400 draws of 128 of 300, each is in about 171, with a deviation of 10.
  std::vector<int> times(300);
  for (int64_t image = 0; image < 400; ++image)
    for (int64_t at : draw(7, image, "rpn").positives) ++times[static_cast<size_t>(at)];
  EXPECT_GT(*std::ranges::min_element(times), 120);
  EXPECT_LT(*std::ranges::max_element(times), 222);
}

}  // namespace
}  // namespace saccade
