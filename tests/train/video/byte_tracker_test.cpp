// Tests ByteTrack on drawn paths: objects pass one another, are missed, or are barely seen behind others.
#include "train/video/byte_tracker.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/tensor/philox.h"

namespace saccade {
namespace {

// An object on a straight path, from its first to its last frame.
struct Walker {
  double x, y, width, height, dx, dy;
  int64_t begin = 0, end = 100, label = 0;

  Box box(int64_t frame) const {
    const auto t = static_cast<double>(frame - begin);
    return box_of_centre(x + dx * t, y + dy * t, width, height);
  }
};

struct WalkScene {
  std::vector<Walker> walkers;
  double jitter = 0;        // of the boxes, in pixels
  double missed = 0;        // fraction of the detections that are missing
  bool hidden_low = false;  // an object behind another one has a low score
};

struct Followed {
  int64_t switches = 0;  // times at which a walker's number changes
  int64_t ids = 0;
  int64_t seen = 0;  // detections with a number
  std::vector<std::vector<int64_t>> numbers;
};

// Walkers later in the list are in front of earlier ones.
Followed follow(const WalkScene& scene, const TrackerOptions& options = {}, uint64_t seed = 1) {
  Followed outcome;
  ByteTracker tracker(options);
  Rng rng(seed);
  auto random = [&] { return static_cast<double>(rng.next() % 1000003) / 1000003; };
  std::map<size_t, int64_t> last;
  for (int64_t frame = 0; frame < 100; ++frame) {
    std::vector<Instance> found;
    std::vector<size_t> whose;
    for (size_t w = 0; w < scene.walkers.size(); ++w) {
      const Walker& walker = scene.walkers[w];
      if (frame < walker.begin || frame >= walker.end || random() < scene.missed) continue;
      double hidden = 0;
      for (size_t other = w + 1; other < scene.walkers.size(); ++other)
        hidden = std::max(hidden, intersection(walker.box(frame), scene.walkers[other].box(frame)) /
                                      walker.box(frame).area());
      const double score = scene.hidden_low && hidden > 0.2 ? 0.3 : 0.9;
      const Box box =
          moved(walker.box(frame), scene.jitter * (random() - 0.5), scene.jitter * (random() - 0.5));
      found.push_back({.label = walker.label, .box = box, .score = score});
      whose.push_back(w);
    }
    const std::vector<int64_t> ids = tracker.update(found);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == 0) continue;
      ++outcome.seen;
      const auto [at, is_first] = last.try_emplace(whose[i], ids[i]);
      outcome.switches += !is_first && at->second != ids[i];
      at->second = ids[i];
    }
    outcome.numbers.push_back(ids);
  }
  outcome.ids = tracker.count();
  return outcome;
}

const Walker kRight{20, 100, 30, 60, 4, 0}, kLeft{420, 112, 30, 60, -4, 0};

TEST(ByteTracker, CrossingsKeepTheirNumbers) {
  struct Row {
    const char* name;
    WalkScene scene;
    int64_t ids;
  };
  const Walker fast{10, 130, 40, 80, 9, -0.5}, down{220, 10, 36, 50, 0.2, 2.5};
  for (const auto& [name, scene, ids] :
       {Row{"two that meet", {.walkers = {kRight, kLeft}}, 2},
        Row{"low scores behind another", {.walkers = {kRight, kLeft}, .hidden_low = true}, 2},
        Row{"shaking boxes", {.walkers = {kRight, kLeft}, .jitter = 4, .hidden_low = true}, 2},
        Row{"missed frames", {.walkers = {kRight, kLeft}, .jitter = 2, .missed = 0.1}, 2},
        Row{"four at different speeds",
            {.walkers = {kRight, kLeft, fast, down}, .jitter = 2, .missed = 0.05, .hidden_low = true},
            4}}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const Followed outcome = follow(scene, {}, seed);
      EXPECT_EQ(outcome.switches, 0) << name << ", seed " << seed;
      EXPECT_EQ(outcome.ids, ids) << name << ", seed " << seed;
      EXPECT_GT(outcome.seen, 80 * static_cast<int64_t>(scene.walkers.size())) << name;
    }
  }
}

TEST(ByteTracker, IsDeterministic) {
  const WalkScene scene{.walkers = {kRight, kLeft}, .jitter = 6, .missed = 0.2, .hidden_low = true};
  EXPECT_EQ(follow(scene).numbers, follow(scene).numbers);
}

Instance box_of_score(const Box& box, double score) { return {.box = box, .score = score}; }

// Tracks detections with high scores before a gap of this many frames, and after it.
std::vector<int64_t> numbers_around_gap(int64_t gap, const TrackerOptions& options) {
  ByteTracker tracker(options);
  std::vector<int64_t> ids;
  for (int64_t frame = 0; frame < 10; ++frame)
    ids = tracker.update(std::vector{box_of_score(kRight.box(frame), 0.9)});
  for (int64_t frame = 0; frame < gap; ++frame) tracker.update({});
  const std::vector<int64_t> before = ids;
  ids = tracker.update(std::vector{box_of_score(kRight.box(10 + gap), 0.9)});
  return {before[0], ids[0]};
}

TEST(ByteTracker, RemembersWhatIsLostForABufferOfFrames) {
  TrackerOptions options;
  for (const int64_t gap : {1, 10, 29})
    EXPECT_EQ(numbers_around_gap(gap, options), (std::vector<int64_t>{1, 1})) << gap;
  EXPECT_EQ(numbers_around_gap(31, options), (std::vector<int64_t>{1, 0}));  // a new one, not yet seen twice
  options.buffer = 5;
  EXPECT_EQ(numbers_around_gap(4, options), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(numbers_around_gap(6, options), (std::vector<int64_t>{1, 0}));
}

TEST(ByteTracker, ScoresBeginAndContinueTracks) {
  const Instance sure = box_of_score(kRight.box(0), 0.9), doubtful = box_of_score(kRight.box(0), 0.55),
                 low = box_of_score(kRight.box(0), 0.3), nothing = box_of_score(kRight.box(0), 0.05);
  using Ids = std::vector<int64_t>;
  auto after_sure = [&](const Instance& next) {
    ByteTracker tracker({});
    EXPECT_EQ(tracker.update(std::vector{sure}), Ids{1});
    return tracker.update(std::vector{next});
  };
  EXPECT_EQ(after_sure(doubtful), Ids{1});
  EXPECT_EQ(after_sure(low), Ids{1});
  EXPECT_EQ(after_sure(nothing), Ids{0});
  // The limits themselves count.
  const TrackerOptions usual;
  EXPECT_EQ(after_sure(box_of_score(kRight.box(0), usual.low)), Ids{1});
  EXPECT_EQ(after_sure(box_of_score(kRight.box(0), std::nextafter(usual.low, 0))), Ids{0});
  EXPECT_EQ(after_sure(box_of_score(kRight.box(0), usual.high)), Ids{1});
  // None of these begins a track.
  for (const Instance& box : {doubtful, low, nothing}) {
    ByteTracker tracker({});
    for (int frame = 0; frame < 5; ++frame) EXPECT_EQ(tracker.update(std::vector{box}), Ids{0}) << box.score;
    EXPECT_EQ(tracker.count(), 0);
  }
  // After the first frame an object is sure when it is seen twice, and one seen once takes no number.
  ByteTracker tracker({});
  tracker.update({});
  EXPECT_EQ(tracker.update(std::vector{sure}), Ids{0});
  EXPECT_EQ(tracker.update(std::vector{sure}), Ids{1});
  // Another class is another object.
  Instance other = sure;
  other.label = 3;
  EXPECT_EQ(tracker.update(std::vector{other}), Ids{0});
  EXPECT_EQ(tracker.update(std::vector{other}), Ids{2});
}

// Compares the filter of four times two numbers with the paper's one of eight, with its matrices in full.
TEST(ByteTracker, MotionIsThatOfTheFullFilter) {
  using Matrix = std::array<std::array<double, 8>, 8>;
  std::array<double, 8> mean{};
  Matrix covariance{};
  auto measure = [](const Box& b) {
    return std::array<double, 4>{(b.x1 + b.x2) / 2, (b.y1 + b.y2) / 2, b.width() / b.height(), b.height()};
  };
  const Box first{10, 20, 40, 90};
  BoxMotion motion(first);
  const auto start = measure(first);
  for (size_t i = 0; i < 4; ++i) mean[i] = start[i];
  auto position = [](size_t i, double height) { return i == 2 ? 1e-2 : height / 20; };
  auto velocity = [](size_t i, double height) { return i == 2 ? 1e-5 : height / 160; };
  for (size_t i = 0; i < 4; ++i) {
    const double p = i == 2 ? 1e-2 : 2 * position(i, start[3]),
                 v = i == 2 ? 1e-5 : 10 * velocity(i, start[3]);
    covariance[i][i] = p * p;
    covariance[i + 4][i + 4] = v * v;
  }
  for (int step = 1; step < 12; ++step) {
    // F x, F P F' + Q
    const double height = mean[3];
    for (size_t i = 0; i < 4; ++i) mean[i] += mean[i + 4];
    Matrix left = covariance;
    for (size_t i = 0; i < 4; ++i)
      for (size_t k = 0; k < 8; ++k) left[i][k] += covariance[i + 4][k];
    covariance = left;
    for (size_t i = 0; i < 8; ++i)
      for (size_t k = 0; k < 4; ++k) covariance[i][k] += left[i][k + 4];
    for (size_t i = 0; i < 4; ++i) {
      covariance[i][i] += std::pow(position(i, height), 2);
      covariance[i + 4][i + 4] += std::pow(velocity(i, height), 2);
    }
    motion.predict(false);
    // The measured numbers are used one after the other, which is the same where their noise is independent.
    const Box box{10.0 + 3 * step, 20.0 + step % 3, 41.0 + 3 * step, 90.0 + step};
    const auto measured = measure(box);
    const double noise_height = mean[3];
    for (size_t m = 0; m < 4; ++m) {
      const double noise = m == 2 ? 1e-1 : position(m, noise_height);
      const double all = covariance[m][m] + noise * noise, error = measured[m] - mean[m];
      const Matrix before = covariance;
      for (size_t i = 0; i < 8; ++i) {
        mean[i] += before[i][m] / all * error;
        for (size_t k = 0; k < 8; ++k) covariance[i][k] -= before[i][m] * before[m][k] / all;
      }
    }
    motion.correct(box);
    const Box expected = box_of_centre(mean[0], mean[1], mean[2] * mean[3], mean[3]);
    EXPECT_NEAR(motion.box().x1, expected.x1, 1e-9);
    EXPECT_NEAR(motion.box().y1, expected.y1, 1e-9);
    EXPECT_NEAR(motion.box().x2, expected.x2, 1e-9);
    EXPECT_NEAR(motion.box().y2, expected.y2, 1e-9);
  }
}

}  // namespace
}  // namespace saccade
