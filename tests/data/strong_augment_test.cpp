// Tests the strong augmentations of RT-DETR and DEIM, and those that change whole batches. To add a golden
// case: scripts/golden/data/make_augment.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "core/files/file.h"
#include "data/augment/augment.h"
#include "data/augment/transforms.h"
#include "data/images/resize.h"
#include "data/loading/loader.h"
#include "data/loading/mix.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

const std::string kAugmentGolden = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/augment/";

// Returns the golden cases of a kind, each behind its name.
std::vector<std::istringstream> golden_cases(const std::string& kind) {
  std::ifstream file(kAugmentGolden + "cases.txt");
  std::vector<std::istringstream> cases;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kind + " ")) cases.emplace_back(line.substr(kind.size() + 1));
  return cases;
}

TEST(Photometric, EqualsTorchvisionToTheByte) {
  auto cases = golden_cases("photometric");
  EXPECT_EQ(cases.size(), 12u);
  for (std::istringstream& in : cases) {
    int64_t height = 0, width = 0, seed = 0;
    in >> height >> width >> seed;
    PhotometricChange change;
    for (auto* value : {&change.brightness, &change.contrast, &change.saturation, &change.hue}) {
      std::string text;
      in >> text;
      if (text != "-") *value = std::stod(text);
    }
    std::string channels, hash;
    in >> change.contrast_first >> channels >> hash;
    for (size_t k = 0; k < 3; ++k) change.channels[k] = channels[k] - '0';
    Image image = test::picture(height, width, seed);
    change_photometry(image, change);
    EXPECT_EQ(fmt::format("{:016x}", hash_name(test::text_of(image))), hash) << in.str();
  }
}

TEST(Photometric, EachPartHasItsOwnProbability) {
  const Augmentation steps = make_augmentation({{{"photometric_distortion", {0.5}}}});
  Sample grey;
  grey.image = Image(2, 2);
  std::fill(grey.image.rgb.begin(), grey.image.rgb.end(), uint8_t{100});
  Sample red = grey;
  for (size_t i = 0; i < red.image.rgb.size(); i += 3) red.image.rgb[i] = 200;
  int bright = 0, untouched = 0;
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    Rng rng(static_cast<uint64_t>(i)), again(static_cast<uint64_t>(i));
    // On a flat grey image only the brightness shows.
    bright += augment(grey, steps, rng).image != grey.image;
    untouched += augment(red, steps, again).image == red.image;
  }
  EXPECT_NEAR(bright, kDraws / 2, 100);  // 4.5 deviations; factors near 1 change nothing
  EXPECT_GT(untouched, kDraws / 64);
  EXPECT_LT(untouched, kDraws / 16);
}

TEST(Photometric, EveryOrderOfTheChannelsIsAsLikely) {
  const Augmentation steps = make_augmentation({{{"photometric_distortion", {1}}}});
  Sample blue;  // the other changes keep its channels' order
  blue.image = Image(1, 1);
  blue.image.rgb = {0, 100, 250};
  std::map<std::array<size_t, 3>, int> orders;
  constexpr int kDraws = 3000;
  for (int i = 0; i < kDraws; ++i) {
    Rng rng(static_cast<uint64_t>(i));
    const std::vector<uint8_t> rgb = augment(blue, steps, rng).image.rgb;
    std::array<size_t, 3> order{0, 1, 2};
    std::ranges::sort(order, {}, [&](size_t c) { return rgb[c]; });
    ++orders[order];
  }
  EXPECT_EQ(orders.size(), 6U);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, kDraws / 6, 92);  // 4.5 deviations
}

TEST(Affine, EqualsTorchvision) {
  auto cases = golden_cases("affine");
  EXPECT_EQ(cases.size(), 5u);
  const std::vector<uint8_t> pixels = read_file(kAugmentGolden + "affine.bin", kTextFile);
  size_t begin = 0;
  for (std::istringstream& in : cases) {
    int64_t height = 0, width = 0, seed = 0;
    AffineChange change;
    Box box, expected;
    in >> height >> width >> seed >> change.degrees >> change.x >> change.y >> change.scale;
    for (Box* b : {&box, &expected}) in >> b->x1 >> b->y1 >> b->x2 >> b->y2;
    Sample sample{.image = test::picture(height, width, seed), .instances = {{.box = box}}};
    move_affine(sample, change);
    int64_t other = 0;
    for (size_t i = 0; i < sample.image.rgb.size(); i += 3)
      other += !std::equal(&sample.image.rgb[i], &sample.image.rgb[i] + 3, &pixels[begin + i]);
    begin += sample.image.rgb.size();
    // Pillow counts with 16 fractional bits: pixels within 1e-3 of an edge, of which there are 2 in 1000,
    // may differ.
    EXPECT_LE(other, height * width / 250) << in.str();
    ASSERT_EQ(sample.instances.size(), 1u);
    EXPECT_NEAR(sample.instances[0].box.x1, expected.x1, 1e-5) << in.str();
    EXPECT_NEAR(sample.instances[0].box.y1, expected.y1, 1e-5) << in.str();
    EXPECT_NEAR(sample.instances[0].box.x2, expected.x2, 1e-5) << in.str();
    EXPECT_NEAR(sample.instances[0].box.y2, expected.y2, 1e-5) << in.str();
  }
  EXPECT_EQ(begin, pixels.size());
}

TEST(MultiScale, EqualTorchsNearestInterpolation) {
  auto cases = golden_cases("nearest");
  EXPECT_EQ(cases.size(), 5u);
  for (std::istringstream& in : cases) {
    int64_t height = 0, width = 0, new_height = 0, new_width = 0, seed = 0;
    std::string hash;
    in >> height >> width >> new_height >> new_width >> seed >> hash;
    Sample sample{.image = test::picture(height, width, seed), .instances = {{0, {1, 2, 5, 8}, 24}}};
    Batch batch = collate({sample}, {make_target(sample, {height, width})}, 1);
    resize_batch(batch, new_height);
    ASSERT_EQ(batch.images.shape(), Shape({1, new_height, new_width, 3}));
    const std::vector<uint8_t> bytes = batch.images.to_vector<uint8_t>();
    EXPECT_EQ(fmt::format("{:016x}", hash_name({reinterpret_cast<const char*>(bytes.data()), bytes.size()})),
              hash);
    EXPECT_EQ(batch.targets[0].frame, (ImageSize{height, width}));
    EXPECT_EQ(batch.targets[0].instances.at(0).box, (Box{1, 2, 5, 8}));
    EXPECT_EQ(batch.targets[0].height, new_height);
    EXPECT_EQ(batch.targets[0].width, new_width);
  }
}

TEST(MultiScale, MayLieBetweenPixels) {
  const Sample sample{.image = test::picture(40, 60, 2), .instances = {{0, {1, 2, 5, 8}, 24}}};
  Batch batch = collate({sample, sample}, {make_target(sample, {40, 60}), make_target(sample, {40, 60})}, 1);
  resize_batch(batch, 30, true);
  ASSERT_EQ(batch.images.shape(), Shape({2, 30, 45, 3}));
  for (int64_t n = 0; n < 2; ++n)
    EXPECT_EQ(batch.images.select(0, n).contiguous().to_vector<uint8_t>(),
              resize_image(sample.image, 30, 45, Filter::kFourPixels).rgb);
  EXPECT_EQ(batch.targets[1].width, 45);
}

// A sample with four random boxes on black.
Sample marked_sample(int64_t height, int64_t width, uint64_t seed) {
  Sample s;
  s.image = Image(height, width);
  Rng rng(seed);
  for (int64_t label = 0; label < 4; ++label) {
    const int64_t w = pick_between(rng, 4, width / 2), h = pick_between(rng, 4, height / 2);
    const int64_t x = pick_between(rng, 0, width - w), y = pick_between(rng, 0, height - h);
    auto at = [](int64_t v) { return static_cast<double>(v); };
    s.instances.push_back({label, {at(x), at(y), at(x + w), at(y + h)}, at(w * h)});
  }
  return s;
}

void expect_inside(const Sample& s, double min_side) {
  for (const Instance& i : s.instances) {
    const Box& b = i.box;
    EXPECT_GE(b.x1, 0);
    EXPECT_GE(b.y1, 0);
    EXPECT_LE(b.x2, static_cast<double>(s.image.width));
    EXPECT_LE(b.y2, static_cast<double>(s.image.height));
    EXPECT_GE(b.x2 - b.x1, min_side);
    EXPECT_GE(b.y2 - b.y1, min_side);
  }
}

TEST(ZoomOut, PutsTheImageOnABlackCanvas) {
  const Augmentation steps = make_augmentation({{{"zoom_out", {1}}}});
  double least = 9, most = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Sample original{.image = test::picture(20, 30, 1), .instances = {{0, {3, 4, 10, 12}, 56}}};
    Rng rng(seed);
    const Sample s = augment(original, steps, rng);
    const double ratio = static_cast<double>(s.image.width) / 30;
    EXPECT_NEAR(static_cast<double>(s.image.height) / 20, ratio, 1.0 / 20);
    least = std::min(least, ratio);
    most = std::max(most, ratio);
    expect_inside(s, 7);
    ASSERT_EQ(s.instances.size(), 1u);
    const double dx = s.instances[0].box.x1 - 3, dy = s.instances[0].box.y1 - 4;
    EXPECT_EQ(s.instances[0].box.width(), 7);
    EXPECT_EQ(s.instances[0].area, 56);
    // The image is found where the box says, and everything around it is black.
    Sample back = s;
    crop(back, static_cast<int64_t>(dy), static_cast<int64_t>(dx), 20, 30);
    EXPECT_TRUE(back.image == original.image);
    auto sum = [](const Image& image) {
      return std::accumulate(image.rgb.begin(), image.rgb.end(), int64_t{0});
    };
    EXPECT_EQ(sum(s.image), sum(original.image));
  }
  EXPECT_LT(least, 1.3);
  EXPECT_GT(most, 3.7);
}

TEST(IouCrop, KeepsObjectsWithTheirCentreInside) {
  const Augmentation steps = make_augmentation({{{"iou_crop", {1}}}});
  int whole = 0, alone = 0;
  int64_t narrowest = 80, lowest = 60;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Sample original = marked_sample(60, 80, seed);
    original.image = test::picture(60, 80, 2);
    Rng rng(seed + 1000);
    const Sample s = augment(original, steps, rng);
    expect_inside(s, 1e-9);
    ASSERT_FALSE(s.instances.empty());
    const int64_t H = s.image.height, W = s.image.width;
    whole += H == 60 && W == 80;
    if (H == 60 && W == 80) continue;
    EXPECT_GE(H, 18);
    EXPECT_GE(W, 24);
    EXPECT_LE(W, 2 * H);
    EXPECT_LE(H, 2 * W);
    narrowest = std::min(narrowest, W);
    lowest = std::min(lowest, H);
    // Finds the window: its first pixels are at one place of the image only.
    int64_t top = -1, left = -1;
    for (int64_t y = 0; y + H <= 60 && top < 0; ++y)
      for (int64_t x = 0; x + W <= 80 && top < 0; ++x) {
        bool same = true;
        for (int64_t row = 0; row < H && same; ++row)
          same = std::equal(s.image.row(row), s.image.row(row) + W * 3, original.image.row(y + row) + x * 3);
        if (same) top = y, left = x;
      }
    ASSERT_GE(top, 0);
    std::vector<Instance> expected;
    for (const Instance& instance : original.instances) {
      const Box& b = instance.box;
      const double cx = (b.x1 + b.x2) / 2 - static_cast<double>(left),
                   cy = (b.y1 + b.y2) / 2 - static_cast<double>(top);
      if (cx <= 0 || cy <= 0 || cx >= static_cast<double>(W) || cy >= static_cast<double>(H)) continue;
      expected.push_back(instance);
    }
    ASSERT_EQ(s.instances.size(), expected.size());
    alone += expected.size() == 1;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(s.instances[i].label, expected[i].label);
      EXPECT_EQ(s.instances[i].box.x1, std::max(expected[i].box.x1 - static_cast<double>(left), 0.0));
      EXPECT_EQ(s.instances[i].box.y2,
                std::min(expected[i].box.y2 - static_cast<double>(top), static_cast<double>(H)));
    }
  }
  // The fractions begin at 0.3.
  EXPECT_LT(narrowest, 80 * 0.4);
  EXPECT_LT(lowest, 60 * 0.4);
  EXPECT_GT(whole, 400 / 7 / 2);
  EXPECT_LT(whole, 400 * 2 / 3);
  EXPECT_GT(alone, 10);
}

TEST(IouCrop, ReachesTheMinimumThatWasDrawn) {
  const Augmentation steps = make_augmentation({{{"iou_crop", {1}}}});
  constexpr double kMinimums[] = {0, 0.1, 0.3, 0.5, 0.7, 0.9, 1};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    // There is one object, so that its overlap is the one that counts.
    const Sample original{.image = Image(60, 80), .instances = {{0, {10, 5, 60, 50}, 50.0 * 45}}};
    Rng rng(seed), first(seed);
    first.uniform();  // whether the step is on
    const double minimum = kMinimums[first.below(7)];
    const Sample s = augment(original, steps, rng);
    if (minimum == 1) {
      EXPECT_TRUE(s.image == original.image);
    } else if (s.image.height * s.image.width != 60 * 80 && minimum <= 0.3) {
      // A window that must overlap so little is soon found, so the first minimum holds.
      const double both = s.instances.at(0).box.area();
      const auto window = static_cast<double>(s.image.height * s.image.width);
      EXPECT_GE(both / (50 * 45 + window - both), minimum - 1e-12);
    }
  }
}

TEST(IouCrop, EndsWhereNoWindowFits) {
  const Augmentation steps = make_augmentation({{{"iou_crop", {1}}}});
  for (auto [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {1, 500}, {300, 2}, {3, 3}}) {
    const Sample original{.image = Image(height, width), .instances = {{0, {0, 0, 1, 1}, 1}}};
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Rng rng(seed);
      const Sample s = augment(original, steps, rng);
      expect_inside(s, 0);
      EXPECT_FALSE(s.instances.empty());
    }
  }
}

TEST(MinBoxSide, DropsSliversBeforeAndAfterTheSize) {
  const Augmentation steps = make_augmentation({{{"min_box_side", {1}}, {"height", {10}}, {"width", {10}}}});
  Rng rng(1);
  // The second is dropped at once, the third is half a pixel high in the end.
  const Sample s =
      augment({.image = Image(40, 20),
               .instances = {{0, {0, 0, 2, 4}, 8}, {1, {5, 5, 5.5, 9}, 2}, {2, {1, 1, 5, 3}, 8}}},
              steps, rng);
  ASSERT_EQ(s.instances.size(), 1u);
  EXPECT_EQ(s.instances[0].label, 0);
}

// The whole list of RT-DETR and DEIM, on 32 pixels.
AugmentFields strong_fields() {
  return {{{"photometric_distortion", {0.5}},
           {"zoom_out", {0.5}},
           {"iou_crop", {0.8}},
           {"min_box_side", {1}},
           {"mosaic", {0.5}},
           {"mosaic_side", {24}},
           {"horizontal_flip", {0.5}},
           {"height", {32}},
           {"width", {32}},
           {"strong_start_epoch", {1}},
           {"strong_stop_epoch", {4}},
           {"mosaic_stop_epoch", {3}}}};
}

TEST(Strong, StepsRunInTheirOrderAndEpochs) {
  std::vector<std::string> always, strong, combining;
  for (const AugmentStep& step : make_augmentation(strong_fields()))
    for (auto [epoch, names] : {std::pair{0, &always}, std::pair{2, &combining}, std::pair{3, &strong}}) {
      if (step.epochs.contains(epoch)) names->push_back(step.name);
      EXPECT_EQ(step.epochs.contains(4), step.epochs.contains(0)) << step.name;
    }
  const std::vector<std::string> rest{"min_box_side", "horizontal_flip", "fixed_resize",
                                      "min_box_side_resized"};
  EXPECT_EQ(always, rest);
  auto with = [&](std::vector<std::string> names) {
    names.insert(names.end(), rest.begin(), rest.end());
    return names;
  };
  EXPECT_EQ(strong, with({"photometric_distortion", "zoom_out", "iou_crop"}));
  EXPECT_EQ(combining, with({"mosaic", "photometric_distortion", "zoom_out", "iou_crop"}));
}

TEST(Mosaic, JoinsFourImagesInPlaceOfZoomAndCrop) {
  AugmentFields fields = strong_fields();
  fields.values["mosaic"] = {1};
  fields.values["zoom_out"] = fields.values["iou_crop"] = {1};
  fields.values["height"] = {0};
  fields.values["photometric_distortion"] = fields.values["horizontal_flip"] = {0};
  const Augmentation steps = make_augmentation(fields);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    int others = 0;
    auto another = [&](Rng& rng) {
      ++others;
      return marked_sample(20, 40, static_cast<uint64_t>(rng.below(9)));
    };
    Rng rng(seed);
    const Sample s = augment(marked_sample(30, 24, seed), steps, rng, 1, another);
    EXPECT_TRUE(s.is_mosaic);
    // Short sides of 24: 48 x 24 and 30 x 24, so cells of 30 rows and 48 columns.
    EXPECT_EQ(s.image.height, 60);
    EXPECT_EQ(s.image.width, 96);
    expect_inside(s, 1);
    EXPECT_EQ(others, 3);
    EXPECT_GT(s.instances.size(), 4u);
  }
}

TEST(Mosaic, StaysAnImageWithTheLongestLines) {
  AugmentFields fields = strong_fields();
  fields.values["mosaic"] = {1};
  fields.values["height"] = {0};
  const Augmentation steps = make_augmentation(fields);
  Rng rng(1);
  const Sample s =
      augment(marked_sample(1, 20000, 1), steps, rng, 1, [](Rng&) { return marked_sample(24, 24, 2); });
  EXPECT_EQ(s.image.height, 48);
  EXPECT_EQ(s.image.width, 2 * 6688);
  expect_inside(s, 1);
  fields.values["mosaic_side"] = {6689};
  EXPECT_THROW(make_augmentation(fields), Error);
}

TEST(BatchMixup, BlendsEachImageWithTheOneBefore) {
  Batch batch;
  batch.images = Tensor::empty({3, 1, 2, 3}, DType::kU8);
  for (int64_t n = 0; n < 3; ++n) {
    std::fill_n(batch.images.data<uint8_t>() + n * 6, 6, static_cast<uint8_t>(100 * n));
    Target t;
    t.height = 1;
    t.width = 2;
    t.instances = {{n, {0, 0, 0.1 * static_cast<double>(n + 1), 1}, static_cast<double>(n)}};
    batch.targets.push_back(t);
  }
  batch.targets[1].instances.clear();
  mix_up_objects(batch, 0.75);
  const std::vector<uint8_t> bytes = batch.images.to_vector<uint8_t>();
  EXPECT_EQ(bytes[0], 50);  // 0.75 * 0 + 0.25 * 200
  EXPECT_EQ(bytes[6], 75);  // 0.75 * 100 + 0.25 * 0
  EXPECT_EQ(bytes[12], 175);
  auto labels = [&](size_t n) {
    std::vector<int64_t> all;
    for (const Instance& i : batch.targets[n].instances) all.push_back(i.label);
    return all;
  };
  EXPECT_EQ(labels(0), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(labels(1), (std::vector<int64_t>{0}));
  EXPECT_EQ(labels(2), (std::vector<int64_t>{2}));
  EXPECT_EQ(batch.targets[0].instances[1].area, 2);
}

TEST(MultiScale, EveryImageIsResizedLikeItself) {
  constexpr int64_t kHeight = 8, kWidth = 12, kTo = 5, kToWidth = 8;
  for (const bool bilinear : {false, true}) {
    Batch batch;
    batch.images = Tensor::empty({3, kHeight, kWidth, 3}, DType::kU8);
    batch.targets.resize(3);
    for (Target& t : batch.targets) {
      t.height = kHeight;
      t.width = kWidth;
    }
    std::vector<uint8_t> expected;
    for (int64_t n = 0; n < 3; ++n) {
      const Image image = test::noise_image(kHeight, kWidth, static_cast<uint64_t>(n));
      std::ranges::copy(image.rgb, batch.images.data<uint8_t>() + n * kHeight * kWidth * 3);
      const Image resized = resize_image(image, kTo, kToWidth, Filter::kFourPixels);
      for (int64_t i = 0; i < kTo * kToWidth * 3; ++i) {
        const int64_t row = i / 3 / kToWidth * kHeight / kTo, column = i / 3 % kToWidth * kWidth / kToWidth;
        expected.push_back(bilinear ? resized.rgb[static_cast<size_t>(i)]
                                    : image.row(row)[3 * column + i % 3]);
      }
    }
    resize_batch(batch, kTo, bilinear);
    ASSERT_EQ(batch.images.shape(), Shape({3, kTo, kToWidth, 3}));
    EXPECT_EQ(batch.images.to_vector<uint8_t>(), expected) << bilinear;
    EXPECT_EQ(batch.targets[2].width, kToWidth);
  }
}

TEST(Strong, ThreadsAndResumingChangeNoByte) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 9));
  AugmentFields fields = strong_fields();
  LoaderOptions options{.batch_size = 3, .shuffle = true, .seed = 5, .augment = make_augmentation(fields)};
  options.batch_mixup = {0.5, epochs_of(AugmentPhase::kCombining, fields)};
  options.multi_scale = {{24, 32, 32, 40}, {0, 4}};
  options.threads = 0;
  auto text = [](const Batch& b) {
    std::string out = fmt::format("{} {} {}", b.epoch, b.index, b.images.shape().to_string());
    for (const Target& t : b.targets) {
      out += fmt::format(" {} {} {}", t.image_id, t.height, t.instances.size());
      for (const Instance& i : t.instances)
        out += fmt::format(" {} {} {} {}", i.box.x1, i.box.y1, i.box.x2, i.box.y2);
    }
    const std::vector<uint8_t> bytes = b.images.to_vector<uint8_t>();
    return fmt::format("{} {}", out, hash_name({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  };
  std::vector<std::string> all;
  std::map<int64_t, int> heights;
  {
    DataLoader loader(set, options);
    for (int i = 0; i < 15; ++i) {
      const Batch batch = *loader.next();
      ++heights[batch.images.dim(1)];
      if (batch.epoch == 4) {
        EXPECT_EQ(batch.images.dim(1), 32);
      }
      all.push_back(text(batch));
    }
  }
  EXPECT_EQ(heights.size(), 3u);
  options.threads = 3;
  for (int start : {0, 1, 5, 10}) {
    options.start_epoch = start / 3;
    options.start_batch = start % 3;
    DataLoader loader(set, options);
    for (size_t i = static_cast<size_t>(start); i < all.size(); ++i) EXPECT_EQ(text(*loader.next()), all[i]);
  }
}

TEST(Strong, ABadImageOfAMosaicIsNamed) {
  TestFolder dir;
  auto set = std::make_shared<const Dataset>(test::make_noise_set(dir, 3));
  AugmentFields fields = strong_fields();
  fields.values["mosaic"] = {1};
  fields.values["strong_start_epoch"] = {0};
  LoaderOptions options{.batch_size = 1, .augment = make_augmentation(fields)};
  options.threads = 0;
  write_bytes(dir / "2.png", "no image");
  const std::string error = input_error([&] {
    DataLoader loader(set, options);
    for (int i = 0; i < 2; ++i) loader.next();
  });
  EXPECT_TRUE(error.starts_with(dir / "2.png")) << error;
  options.bad_images = BadImages::kReplace;
  DataLoader loader(set, options);
  std::vector<std::string> skipped;
  for (int i = 0; i < 9; ++i) {
    const Batch batch = *loader.next();
    skipped.insert(skipped.end(), batch.bad_images.begin(), batch.bad_images.end());
  }
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_NE(skipped[0].find("2.png"), std::string::npos);
  // Image 1 is the next readable one after 2 and 0.
  write_bytes(dir / "0.png", "no image");
  DataLoader alone(set, options);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(alone.next()->targets.at(0).image_id, set->image_id(1));
}

}  // namespace
}  // namespace saccade
