#include "data/loading/loader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "data/formats/data_format.h"
#include "data/loading/bad_image_lines.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

Augmentation detector_augment() {
  return make_augmentation({{{"horizontal_flip", {0.5}},
                             {"vertical_flip", {0.5}},
                             {"rotate90", {0.5}},
                             {"crop_probability", {0.5}},
                             {"crop_short_sides", {30, 40}},
                             {"crop_min", {20}},
                             {"crop_max", {36}},
                             {"short_sides", {24, 32, 40}},
                             {"long_side", {60}},
                             {"color_probability", {0.5}},
                             {"brightness", {0.4}},
                             {"contrast", {0.4}},
                             {"saturation", {0.4}},
                             {"hue", {0.1}}}});
}

void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.index, b.index);
  ASSERT_EQ(a.images.shape(), b.images.shape());
  EXPECT_EQ(a.images.to_vector<uint8_t>(), b.images.to_vector<uint8_t>());
  ASSERT_EQ(a.targets.size(), b.targets.size());
  for (size_t i = 0; i < a.targets.size(); ++i) {
    EXPECT_EQ(a.targets[i].image_id, b.targets[i].image_id);
    const std::vector<Instance>&all = a.targets[i].instances, &others = b.targets[i].instances;
    ASSERT_EQ(all.size(), others.size());
    for (size_t k = 0; k < all.size(); ++k) {
      EXPECT_EQ(all[k].label, others[k].label);
      EXPECT_EQ(all[k].box, others[k].box);
      EXPECT_EQ(all[k].area, others[k].area);
    }
  }
}

std::vector<Batch> take(const std::shared_ptr<const Dataset>& set, const LoaderOptions& options, int count) {
  DataLoader loader(set, options);
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) {
    auto batch = loader.next();
    if (!batch) break;
    batches.push_back(std::move(*batch));
  }
  return batches;
}

TEST(Loader, IsBitEqualWhateverTheThreadsPrefetchAndCache) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 23));
  LoaderOptions options;
  options.batch_size = 4;
  options.shuffle = true;
  options.seed = 7;
  options.pad_multiple = 8;
  options.augment = detector_augment();
  options.threads = 0;
  auto reference = take(set, options, 15);
  ASSERT_EQ(reference.size(), 15u);
  for (int threads : {1, 2, 5}) {
    for (int prefetch : {0, 1, 4}) {
      options.threads = threads;
      options.prefetch = prefetch;
      options.cache_mb = prefetch == 1 ? 1 : 0;
      auto batches = take(set, options, 15);
      ASSERT_EQ(batches.size(), 15u);
      for (size_t i = 0; i < batches.size(); ++i) expect_equal(batches[i], reference[i]);
    }
  }
}

TEST(Loader, ReportsABatchBeforeItHandsItOut) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 6));
  for (const int threads : {0, 2}) {
    std::mutex mutex;
    std::set<int64_t> made;
    LoaderOptions options{.batch_size = 2};
    options.threads = threads;
    options.made = [&](const Batch& batch) {
      const std::lock_guard lock(mutex);
      made.insert(batch.index);
    };
    DataLoader loader(set, options);
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t index = loader.next()->index;
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(made.contains(index)) << index;
    }
  }
}

TEST(Loader, ResumesAtAnyBatch) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 10));
  LoaderOptions options;
  options.batch_size = 3;
  options.shuffle = options.drop_last = true;
  options.augment = detector_augment();
  auto all = take(set, options, 9);
  for (int64_t start = 0; start < 9; ++start) {
    options.start_epoch = start / 3;
    options.start_batch = start % 3;
    auto rest = take(set, options, static_cast<int>(9 - start));
    for (size_t i = 0; i < rest.size(); ++i) expect_equal(rest[i], all[static_cast<size_t>(start) + i]);
  }
  options.start_epoch = 0;
  options.start_batch = 5;  // beyond the epoch: counts on
  expect_equal(take(set, options, 1)[0], all[5]);
}

TEST(Loader, EvaluationSeesEveryImageOnceInOrder) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 11));
  LoaderOptions options;
  options.batch_size = 4;
  options.epochs = 1;
  auto batches = take(set, options, 100);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[2].targets.size(), 3u);
  int64_t id = 10;
  for (const Batch& b : batches) {
    for (const Target& t : b.targets) EXPECT_EQ(t.image_id, id++);
  }
  EXPECT_EQ(id, 21);
}

TEST(Loader, EveryEpochIsANewPermutation) {
  auto a = epoch_order(100, true, 1, 0), b = epoch_order(100, true, 1, 1), c = epoch_order(100, true, 2, 0);
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(a, epoch_order(100, true, 1, 0));
  EXPECT_EQ(std::set<int64_t>(a.begin(), a.end()).size(), 100u);
}

TEST(Sampling, WeightsFollowTheirFormulas) {
  // Class 0 is in all four images, 1 in one of them; the last image has nothing.
  const std::vector<std::vector<int64_t>> images{{0}, {0, 0, 1}, {0}, {}};
  const double rare = std::sqrt(0.9 / 0.25), usual = std::sqrt(0.9 / 0.75);
  EXPECT_TRUE(sampling_weights(images, Sampling::kUniform, 0.9).empty());
  const std::vector<double> repeat = sampling_weights(images, Sampling::kRepeatFactor, 0.9),
                            balanced = sampling_weights(images, Sampling::kClassBalanced, 0.9);
  const double repeat_expected[] = {usual, rare, usual, 1}, one = 4.0 / 3,
               balanced_expected[] = {one, (one + 4) / 2, one, 1};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(repeat.at(i), repeat_expected[i]) << i;
    EXPECT_DOUBLE_EQ(balanced.at(i), balanced_expected[i]) << i;
  }
}

TEST(Sampling, AnEpochDrawsByWeight) {
  std::vector<double> weights(100, 1);
  for (size_t i = 0; i < 10; ++i) weights[i] = 4.5;  // a third of 135
  std::vector<double> drawn(100);
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    const std::vector<int64_t> order = weighted_order(weights, 7, epoch);
    EXPECT_EQ(order, weighted_order(weights, 7, epoch));
    ASSERT_EQ(order.size(), 100u);
    std::vector<int> now(100);
    for (int64_t i : order) ++now.at(static_cast<size_t>(i));
    for (size_t i = 0; i < 100; ++i) {
      const double wanted = 100 * weights[i] / 135;
      EXPECT_TRUE(now[i] == std::floor(wanted) || now[i] == std::ceil(wanted)) << i;
      drawn[i] += now[i] / 40.0;
    }
  }
  EXPECT_NEAR(std::accumulate(drawn.begin(), drawn.begin() + 10, 0.0), 100.0 / 3, 1);
}

TEST(Sampling, GroupsFillBatches) {
  const std::vector<uint8_t> groups{0, 1, 0, 1, 1, 0, 1, 0, 0};
  EXPECT_EQ(grouped_order({8, 7, 6, 5, 4, 3, 2, 1, 0}, groups, 2),
            (std::vector<int64_t>{8, 7, 6, 4, 5, 2, 3, 1, 0}));
}

TEST(Sampling, AnImageThatComesAgainIsAugmentedAnew) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 6));
  LoaderOptions options;
  options.batch_size = 6;
  options.shuffle = true;
  options.sampling = Sampling::kClassBalanced;
  options.augment =
      make_augmentation({{{"short_sides", {20, 21, 22, 23, 24, 25, 26, 27, 28, 29}}, {"long_side", {100}}}});
  std::map<int64_t, std::set<int64_t>> heights;
  std::map<int64_t, int> times;
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    options.start_epoch = epoch;
    const Batch b = take(set, options, 1).at(0);
    for (const Target& t : b.targets) {
      heights[epoch * 100 + t.image_id].insert(std::min(t.height, t.width));
      ++times[epoch * 100 + t.image_id];
    }
  }
  int again = 0, other = 0;
  for (const auto& [image, n] : times) {
    again += n > 1;
    other += heights[image].size() > 1;
  }
  EXPECT_TRUE(again == 0 || other > 0) << again << " come again";
}

TEST(Loader, PadsWithZeros) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 8));
  LoaderOptions options;
  options.batch_size = 8;
  for (const auto& [multiple, later] : {std::pair{1, false}, {32, false}, {1, true}}) {
    options.pad_multiple = multiple;
    Batch b = take(set, options, 1).at(0);
    if (later) pad_batch(b, 50, 61);  // as another process needs it
    int64_t h = b.images.dim(1), w = b.images.dim(2);
    EXPECT_EQ(h, later ? 50 : multiple == 1 ? 46 : 64);
    EXPECT_EQ(w, later ? 61 : multiple == 1 ? 54 : 64);
    for (size_t n = 0; n < 8; ++n) {
      const Target& t = b.targets[n];
      Image original = test::noise_image(t.original_height, t.original_width, n);
      for (int64_t y = 0; y < h; ++y) {
        for (int64_t x = 0; x < w; ++x) {
          int64_t at = (static_cast<int64_t>(n) * h + y) * w + x;
          bool padding = y >= t.height || x >= t.width;
          for (int c = 0; c < 3; ++c) {
            ASSERT_EQ(b.images.data<uint8_t>()[at * 3 + c], padding ? 0 : original.row(y)[x * 3 + c]);
          }
        }
      }
    }
  }
}

TEST(Loader, TargetsAreInPixelsOfTheImage) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 4));
  LoaderOptions options;
  options.batch_size = 4;
  Batch b = take(set, options, 1).at(0);
  const Target& t = b.targets[3];  // 43 x 53 pixels; boxes (1, 0, 10, 12), (4, 2, 11, 12), (7, 4, 12, 12)
  ASSERT_EQ(t.instances.size(), 3u);
  EXPECT_EQ(t.frame, (ImageSize{43, 53}));
  EXPECT_EQ(t.instances[1].label, 1);
  EXPECT_EQ(t.instances[1].box, (Box{4, 2, 15, 14}));
  EXPECT_TRUE(b.targets[0].instances.empty());
}

TEST(Loader, ABrokenImageReachesTheConsumer) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 9));
  write_bytes(dir / "4.png", "not a picture");
  for (int threads : {0, 3}) {
    LoaderOptions options;
    options.batch_size = 2;
    options.threads = threads;
    DataLoader loader(set, options);
    EXPECT_TRUE(loader.next());
    EXPECT_TRUE(loader.next());
    std::string first = input_error([&] { loader.next(); });
    EXPECT_NE(first.find("4.png"), std::string::npos) << first;
    EXPECT_EQ(input_error([&] { loader.next(); }), first);
  }
}

TEST(Loader, StopsCleanlyInTheMiddle) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 9));
  LoaderOptions options;
  options.threads = 4;
  options.prefetch = 8;
  for (int i = 0; i < 20; ++i) {
    DataLoader loader(set, options);
    if (i % 2) loader.next();
  }
}

TEST(Loader, RefusesWhatCannotWork) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 3));
  LoaderOptions options;
  options.batch_size = 4;
  options.drop_last = true;
  EXPECT_NE(input_error([&] { DataLoader(set, options); }).find("3 images make no full batch of 4"),
            std::string::npos);
  options.batch_size = 0;
  EXPECT_THROW(DataLoader(set, options), Error);
  options.batch_size = 1;
  options.mix.probability = 1.5;
  EXPECT_THROW(DataLoader(set, options), Error);
}

// Damages a PNG: its ends stay whole, but one byte does not match its checksum.
void damage(const std::string& path) {
  std::string bytes = read_bytes(path);
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(path, bytes);
}

TEST(Loader, AnotherImageTakesThePlaceOfABadOne) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 9));
  for (const char* name : {"2.png", "3.png", "8.png"}) damage(dir / name);
  LoaderOptions options;
  options.batch_size = 2;
  options.shuffle = true;
  options.augment = detector_augment();
  options.threads = 0;
  EXPECT_NE(input_error([&] { take(set, options, 5); }).find(".png: damaged image"), std::string::npos);
  options.bad_images = BadImages::kReplace;
  const std::vector<Batch> reference = take(set, options, 15);
  ASSERT_EQ(reference.size(), 15u);
  size_t told = 0;
  std::set<int64_t> seen;
  for (const Batch& b : reference) {
    told += b.bad_images.size();
    EXPECT_EQ(b.targets.size(), b.index == 4 ? 1u : 2u);
    for (const Target& t : b.targets) seen.insert(t.image_id);
  }
  EXPECT_EQ(told, 3u);  // each once
  EXPECT_EQ(seen, (std::set<int64_t>{10, 11, 14, 15, 16, 17}));
  for (int threads : {1, 3})
    for (int64_t start : {0, 4}) {
      options.threads = threads;
      options.start_batch = start;
      const std::vector<Batch> batches = take(set, options, 15 - static_cast<int>(start));
      for (size_t i = 0; i < batches.size(); ++i)
        expect_equal(batches[i], reference[i + static_cast<size_t>(start)]);
    }
  for (int i = 0; i < 9; ++i) write_bytes(dir / fmt::format("{}.png", i), "no image");
  EXPECT_NE(input_error([&] { take(set, options, 5); }).find("none of its images can be read"),
            std::string::npos);
}

TEST(Loader, WarnsOnceOfADamagedImageThatItReads) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 4));
  std::vector<uint8_t> jpeg = encode_jpeg(test::noise_image(42, 52, 2), 90);
  jpeg.resize(jpeg.size() / 2);
  jpeg.insert(jpeg.end(), {0xFF, 0xD9});
  write_bytes(dir / "2.png", {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
  LoaderOptions options;
  options.batch_size = 2;
  options.epochs = 3;
  for (const BadImages bad : {BadImages::kFail, BadImages::kReplace, BadImages::kLeaveOut})
    for (const int threads : {0, 2}) {
      options.bad_images = bad;
      options.threads = threads;
      std::vector<std::string> told;
      size_t images = 0;
      for (const Batch& b : take(set, options, 100)) {
        images += b.targets.size();
        told.insert(told.end(), b.bad_images.begin(), b.bad_images.end());
      }
      EXPECT_EQ(images, 12u);
      ASSERT_EQ(told.size(), 1u);
      EXPECT_EQ(told[0], "warning: " + dir / "2.png" +
                             ": damaged JPEG data (some of it is missing), some pixels may be wrong");
      BadImageLines lines;
      EXPECT_EQ(lines.line(told[0]), told[0]);
      EXPECT_EQ(lines.line(told[0]), "");
    }
  const DatasetReport report = check_dataset({.annotations = dir / "a.json", .images = dir.path()});
  ASSERT_EQ(report.problems.lines().size(), 1u);
  EXPECT_NE(report.problems.lines()[0].find("2.png: damaged JPEG data"), std::string::npos);
}

TEST(Loader, EvaluationLeavesBadImagesOut) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 7));
  for (const char* name : {"1.png", "4.png", "5.png"}) damage(dir / name);
  LoaderOptions options;
  options.batch_size = 2;
  options.bad_images = BadImages::kLeaveOut;
  options.epochs = 1;
  const std::vector<Batch> batches = take(set, options, 100);
  ASSERT_EQ(batches.size(), 4u);
  std::vector<int64_t> ids;
  std::vector<std::string> told;
  for (const Batch& b : batches) {
    for (const Target& t : b.targets) ids.push_back(t.image_id);
    told.insert(told.end(), b.bad_images.begin(), b.bad_images.end());
  }
  EXPECT_EQ(ids, (std::vector<int64_t>{10, 12, 13, 16}));
  EXPECT_TRUE(batches[2].targets.empty());
  EXPECT_EQ(batches[0].images.dim(0), 1);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_NE(told[2].find("5.png: "), std::string::npos) << told[2];
  BadImageLines skipped;
  EXPECT_EQ(skipped.line(told[0]), "skipped, 1 so far: " + told[0]);
  EXPECT_EQ(skipped.line(told[2]), "skipped, 2 so far: " + told[2]);
  EXPECT_EQ(skipped.line(told[0]), "");
}

// DETR's crop would enlarge it to 600 x 18,000,000 pixels.
TEST(Loader, ASliverIsNamed) {
  TestFolder dir;
  write_png(Image(2, 60000), dir / "thin.png");
  write_bytes(
      dir / "a.json",
      R"({"images":[{"id":1,"file_name":"thin.png","width":60000,"height":2}],"annotations":[],"categories":[{"id":1,"name":"a"}]})");
  auto set = std::make_shared<const Dataset>(load_coco(dir / "a.json", dir.path()));
  LoaderOptions options;
  options.augment = make_augmentation(
      {{{"crop_probability", {1}}, {"crop_short_sides", {400}}, {"crop_min", {384}}, {"crop_max", {600}}}});
  EXPECT_EQ(input_error([&] { take(set, options, 1); }),
            dir / "thin.png" + ": an image of 12000000 x 400 pixels, expected at most 178956970 in all");
}

}  // namespace
}  // namespace saccade
