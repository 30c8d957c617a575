// Tests image-folder data sets, and the loader over them.
#include "data/formats/data_format.h"
#include "data/formats/splits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/formats/named_classes.h"
#include "data/loading/loader.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

void add_image(const TestFolder& dir, const std::string& name, uint64_t seed = 0) {
  fs::create_directories(fs::path(dir / name).parent_path());
  write_png(test::noise_image(20 + static_cast<int64_t>(seed % 3), 24, seed), dir / name);
}

// Reads the folder without looking at the images.
std::shared_ptr<const Dataset> load(const std::string& folder, const std::vector<std::string>& classes = {}) {
  DataPaths paths{.images = folder, .wants = {.image_classes = true}, .look_at_images = false};
  if (!classes.empty()) paths.categories = number_classes(classes, {});
  return open_dataset(paths);
}
std::shared_ptr<const Dataset> open(const std::string& folder, bool allow_outside = false) {
  return open_dataset({.images = folder, .allow_outside = allow_outside, .wants = {.image_classes = true}});
}
int64_t label(const Dataset& set, int64_t index) { return set.labels_of(index).at(0); }

// Three classes of noise images.
std::shared_ptr<const Dataset> make_folder(const TestFolder& dir) {
  uint64_t seed = 0;
  for (const char* name : {"b/2.png", "b/10.png", "a/x.png", "a/deep/y.png", "c/z.PNG", "a/z.png", "b/1.png"})
    add_image(dir, name, ++seed);
  return load(dir.path());
}

TEST(ImageFolder, OrdersClassesAndFilesByName) {
  TestFolder dir;
  const auto folder = make_folder(dir);
  const Dataset& set = *folder;
  EXPECT_EQ(set.class_names(), (std::vector<std::string>{"a", "b", "c"}));
  std::vector<std::string> names;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < set.num_images(); ++i) {
    names.push_back(set.file_name(i));
    labels.push_back(label(set, i));
    EXPECT_EQ(set.image_path(i), dir / set.file_name(i));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a/x.png", "a/z.png", "a/deep/y.png", "b/1.png", "b/10.png",
                                             "b/2.png", "c/z.PNG"}));
  EXPECT_EQ(labels, (std::vector<int64_t>{0, 0, 0, 1, 1, 1, 2}));
  EXPECT_EQ(set.ground_truth().told.at(0), dir.path() + ": 7 images of 3 classes");
}

TEST(ImageFolder, SplitsMayHaveCapitals) {
  TestFolder dir;
  for (const char* split : {"Training", "TEST"})
    for (const char* name : {"cat", "dog"}) {
      fs::create_directories(fs::path(dir / split) / name);
      write_bytes(fmt::format("{}/{}/{}/a.png", dir.path(), split, name), "");
    }
  const DataSplits splits = find_splits(dir.path(), "", {.image_classes = true});
  ASSERT_TRUE(splits.train && splits.test && !splits.val);
  EXPECT_EQ(splits.train->images, dir / "Training");
  EXPECT_EQ(splits.test->images, dir / "TEST");
}

TEST(ImageFolder, IsNoneBesideAListOfBoxes) {
  TestFolder dir;
  fs::create_directories(dir / "images");
  fs::create_directories(dir / "label_maps");
  const auto splits = [&](const std::string& format) {
    return find_splits(dir.path(), format, {.image_classes = true});
  };
  write_bytes(dir / "classes.json", "{}");  // any other list
  EXPECT_TRUE(splits("").train);
  write_bytes(dir / "annotations.json", R"({"images": [], "annotations": [], "categories": []})");
  EXPECT_EQ(
      input_error([&] { splits(""); }),
      dir.path() +
          ": is a data set in the format coco, which has boxes and masks; the task needs image classes");
  EXPECT_TRUE(splits("folder").train) << "as it was asked for";
  // The same holds if the list is in the folder of a split.
  TestFolder parts;
  fs::create_directories(parts / "train/images");
  fs::rename(dir / "annotations.json", parts / "train/annotations.json");
  EXPECT_EQ(
      input_error([&] { find_splits(parts.path(), "", {.image_classes = true}); }),
      parts.path() +
          ": is a data set in the format coco, which has boxes and masks; the task needs image classes");
}

TEST(ImageFolder, IsNoneOfImagesAndTheirLabelMaps) {
  TestFolder dir;
  for (const char* split : {"", "train/", "val/"})
    for (const char* name : {"images/", "masks/"}) {
      fs::remove_all(dir.path() + "/" + name);
      add_image(dir, fmt::format("{}{}a.png", split, name));
      if (name[0] == 'i') continue;
      EXPECT_EQ(
          input_error([&] { find_splits(dir.path(), "", {.image_classes = true}); }),
          dir.path() +
              ": is a data set in the format label_maps, which has label maps; the task needs image classes")
          << split;
      EXPECT_TRUE(find_splits(dir.path(), "folder", {.image_classes = true}).train) << split;
    }
}

TEST(ImageFolder, PassesOverHiddenFilesAndCountsOthers) {
  TestFolder dir;
  make_folder(dir);
  add_image(dir, ".hidden/x.png");
  add_image(dir, "a/.x.png");
  add_image(dir, "outside.png");
  write_bytes(dir / "a/notes.txt", "text");
  const auto set = load(dir.path());
  EXPECT_EQ(set->num_images(), 7);
  EXPECT_EQ(set->ground_truth().told.at(0),
            dir.path() + ": 7 images of 3 classes; 2 other files are left out, for example \"outside.png\"");
}

TEST(ImageFolder, LabelsFollowTheModelsClasses) {
  TestFolder dir;
  make_folder(dir);
  const auto set = load(dir.path(), {"c", "b", "a"});
  EXPECT_EQ(label(*set, 0), 0);
  EXPECT_EQ(set->file_name(0), "c/z.PNG");
  EXPECT_EQ(label(*set, 6), 2);
}

TEST(ImageFolder, WordNetNumbersStandForClassesInTheirOrder) {
  TestFolder dir;
  std::vector<std::string> names;
  for (int k = 0; k < 1000; ++k) {
    add_image(dir, fmt::format("n{:08}/a.png", 99 * (1000 - k)));
    names.push_back(fmt::format("class {}", k));
  }
  const auto set = load(dir.path(), names);
  EXPECT_EQ(set->class_names(), names);
  EXPECT_EQ(set->file_name(1), "n00000198/a.png");
  EXPECT_EQ(label(*set, 1), 1);
  // This does not apply to class counts other than ImageNet's.
  names.pop_back();
  fs::remove_all(dir / "n00000099");
  EXPECT_NE(input_error([&] { load(dir.path(), names); }).find("n00000198"), std::string::npos);
}

TEST(ImageFolder, RefusesWhatIsNoDataSet) {
  TestFolder dir;
  auto refused = [&](const std::string& folder, const std::vector<std::string>& classes,
                     const std::string& part) {
    std::string message = input_error([&] { load(folder, classes); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refused(dir / "none", {}, "none: no such folder of images");
  refused(dir.path(), {}, "has no class folders, expected one sub-folder of images for each class");
  make_folder(dir);
  refused(dir / "a/x.png", {}, "no such folder");
  refused(dir.path(), {"a", "c"}, "has the class \"b\", which is not one of the 2 known classes");
  refused(dir.path(), {"a", "b", "c", "d"}, "has no folder for the class \"d\"");
  fs::create_directories(dir / "empty/below");
  refused(dir.path(), {}, "empty: the class folder has no images");
  fs::remove_all(dir / "empty");
  write_bytes(dir / "b/picture.heic", "x");
  refused(
      dir.path(), {},
      "b/picture.heic: images of this type are not supported, expected JPEG, PNG, BMP, WebP, GIF or TIFF");
}

Augmentation classifier_augment() {
  return make_augmentation({.values = {{"horizontal_flip", {0.5}},
                                       {"erase_probability", {0.5}},
                                       {"height", {16}},
                                       {"width", {16}},
                                       {"crop_area_min", {0.08}},
                                       {"crop_area_max", {1}},
                                       {"crop_ratio_min", {3.0 / 4}},
                                       {"crop_ratio_max", {4.0 / 3}},
                                       {"color_probability", {0.5}},
                                       {"brightness", {0.4}},
                                       {"contrast", {0.4}},
                                       {"saturation", {0.4}}},
                            .filter = Filter::kBicubic});
}

TEST(ImageFolder, TheLoaderIsBitEqualWhateverTheThreads) {
  TestFolder dir;
  const auto set = make_folder(dir);
  LoaderOptions options;
  options.batch_size = 3;
  options.shuffle = options.drop_last = true;
  options.augment = classifier_augment();
  options.mix = {.probability = 0.8, .mixup_alpha = 0.8, .cutmix_alpha = 1};
  auto take = [&](int threads, int64_t cache, int64_t start) {
    options.threads = threads;
    options.cache_mb = cache;
    options.start_batch = start;
    DataLoader loader(set, options);
    std::vector<Batch> batches;
    for (int64_t i = start; i < 12; ++i) batches.push_back(std::move(*loader.next()));
    return batches;
  };
  std::vector<Batch> reference = take(0, 0, 0);
  double least = 1, most = 0;
  for (const Batch& b : reference) {
    ASSERT_EQ(b.images.shape(), Shape({3, 16, 16, 3}));
    for (const Target& t : b.targets) {
      EXPECT_EQ(t.file_name[0], 'a' + t.label);
      EXPECT_TRUE(t.instances.empty());
    }
    least = std::min(least, b.lambda);
    most = std::max(most, b.lambda);
  }
  EXPECT_LT(least, 0.9);
  EXPECT_EQ(most, 1);  // some batches are not mixed
  for (int threads : {1, 3})
    for (int64_t start : {0, 5}) {
      std::vector<Batch> batches = take(threads, threads == 1, start);
      for (size_t i = 0; i < batches.size(); ++i) {
        const Batch& wanted = reference[i + static_cast<size_t>(start)];
        EXPECT_EQ(batches[i].lambda, wanted.lambda);
        EXPECT_EQ(batches[i].images.to_vector<uint8_t>(), wanted.images.to_vector<uint8_t>());
      }
    }
}

TEST(ImageFolder, PartsOfProcessesMakeTheWholeBatch) {
  TestFolder dir;
  const auto set = make_folder(dir);
  LoaderOptions options{.batch_size = 3, .shuffle = true, .drop_last = true, .augment = classifier_augment()};
  options.mix = {.probability = 0.5, .mixup_alpha = 0.8};
  DataLoader alone(set, options);
  options.ranks = 2;
  options.rank = 0;
  DataLoader first(set, options);
  options.rank = 1;
  DataLoader second(set, options);
  int mixed = 0;
  for (int i = 0; i < 8; ++i) {
    const Batch whole = *alone.next();
    std::vector<uint8_t> pixels;
    std::vector<int64_t> partners, labels;
    for (DataLoader* loader : {&first, &second}) {
      const Batch part = *loader->next();
      EXPECT_EQ(part.first, std::ssize(labels));
      EXPECT_EQ(part.whole, 3);
      EXPECT_EQ(part.lambda, whole.lambda);
      for (const uint8_t v : part.images.to_vector<uint8_t>()) pixels.push_back(v);
      for (const Target& t : part.targets) labels.push_back(t.label);
      partners.insert(partners.end(), part.partner_labels.begin(), part.partner_labels.end());
    }
    EXPECT_EQ(pixels, whole.images.to_vector<uint8_t>());
    std::vector<int64_t> expected;
    for (const Target& t : whole.targets) expected.push_back(t.label);
    EXPECT_EQ(labels, expected);
    std::ranges::reverse(expected);
    if (whole.lambda == 1) expected.clear();
    EXPECT_EQ(partners, expected);
    mixed += whole.lambda != 1;
  }
  EXPECT_GT(mixed, 0);
  EXPECT_LT(mixed, 8);
}

TEST(ImageFolder, ABrokenImageIsNamed) {
  TestFolder dir;
  make_folder(dir);
  write_bytes(dir / "b/10.png", "not a picture");
  DataLoader loader(load(dir.path()), {.batch_size = 7});
  std::string message = input_error([&] { loader.next(); });
  EXPECT_NE(message.find("b/10.png"), std::string::npos) << message;
}

TEST(ImageFolder, LinksToFoldersAreFollowedOnceAndSaid) {
  TestFolder dir, other;
  make_folder(dir);
  const int64_t images = load(dir.path())->num_images();
  fs::create_directory_symlink(".", dir / "a/self");
  fs::create_directory_symlink("../a", dir / "a/again");
  fs::create_directories(dir / "b/x");
  fs::create_directory_symlink("..", dir / "b/x/up");
  fs::create_directory_symlink("../x", dir / "b/x/here");
  EXPECT_EQ(load(dir.path())->num_images(), images);
  // A link to a folder that contains this one is not followed.
  fs::create_directory_symlink("/", dir / "a/root");
  EXPECT_EQ(load(dir.path())->num_images(), images);
  EXPECT_EQ(load(dir.path())->ground_truth().told.at(1),
            "note: 1 link to a folder in " + dir.path() +
                " leads to a folder that contains it, or nowhere, and is not followed, for example a/root");
  fs::remove(dir / "a/root");
  add_image(other, "deep/o.png");
  add_image(dir, "c/own.png");
  fs::create_directory_symlink(other.path(), dir / "a/far");
  const auto set = load(dir.path());
  EXPECT_EQ(set->num_images(), images + 2);
  const std::string& note = set->ground_truth().told.at(1);
  EXPECT_NE(note.find(" leads out of it and is followed, for example a/far (to "), std::string::npos) << note;
  EXPECT_EQ(open(dir.path())->num_images(), images + 2);
  // Links to files stay inside.
  add_image(other, "f.png");
  fs::create_symlink(other / "f.png", dir / "c/f.png");
  EXPECT_EQ(open(dir.path())->num_images(), images + 4) << "a/far leads there";
  fs::remove(dir / "a/far");
  EXPECT_NE(input_error([&] { open(dir.path()); }).find("c/f.png"), std::string::npos);
  EXPECT_EQ(open(dir.path(), true)->num_images(), images + 2);
}

}  // namespace
}  // namespace saccade
