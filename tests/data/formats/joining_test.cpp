// Tests some classes of a data set, and several data sets as one: the results are the same in every format.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "data/formats/checks/dataset_check.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/splits.h"
#include "tests/data/formats/test_sets.h"

namespace saccade {
namespace {

using test::kDetectionFormats;
using test::Objects;
using test::write_set;

std::string joined_notes(const GroundTruth& truth) {
  std::string text;
  for (const std::string& note : truth.notes) text += note + "\n";
  return text;
}

// Returns "a.png: cat dog(3) | b.png:", with the ids that are not the category's place in the list, from 1.
std::string describe(const GroundTruth& truth) {
  std::string text;
  for (const ImageInfo& image : truth.images) {
    text += (text.empty() ? "" : " | ") + image.file_name + ":";
    for (const Annotation& a : truth.annotations)
      for (size_t k = 0; k < truth.categories.size(); ++k)
        if (a.image_id == image.id && a.category_id == truth.categories[k].id)
          text += " " + truth.categories[k].name;
  }
  return text;
}

std::string categories_text(const GroundTruth& truth) {
  std::string text;
  for (const Category& c : truth.categories)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", c.name, c.id);
  return text;
}

const Objects kPets{{"a.png", "cat"}, {"a.png", "dog"}, {"b.png", "dog"}, {"c.png", "bus"}};

TEST(Classes, AreChosenAlikeInEveryFormat) {
  struct Case {
    ClassChoice choice;
    std::string boxes, categories, of_coco;  // categories: where names alone count
    std::vector<std::string> notes;
  };
  const std::vector<Case> cases{
      {{}, "a.png: cat dog | b.png: dog | c.png: bus", "bus=1 cat=2 dog=3", "cat=11 dog=12 bus=13", {}},
      {{.only = {"dog", "cat"}},
       "a.png: cat dog | b.png: dog | c.png:",
       "dog=1 cat=2",
       "cat=11 dog=12",
       {"1 of 4 boxes left out, those of 1 class: \"bus\" 1",
        "1 image has no object of these classes and stays as an image without objects"}},
      {{.map = {{"cat", "pet"}, {"dog", "pet"}, {"bus", ""}}},
       "a.png: pet pet | b.png: pet | c.png:",
       "pet=1",
       "pet=11",
       {"boxes mapped to other classes: \"cat\" 1 as \"pet\", \"dog\" 2 as \"pet\"",
        "those of 1 class: \"bus\" 1"}},
      {{.map = {{"cat", "dog"}}, .only = {"dog"}},
       "a.png: dog dog | b.png: dog | c.png:",
       "dog=1",
       "dog=12",
       {"\"cat\" 1 as \"dog\""}},
      {{.map = {{"cat", "dog"}, {"dog", "cat"}}},
       "a.png: dog cat | b.png: cat | c.png: bus",
       "bus=1 dog=2 cat=3",
       "dog=12 cat=11 bus=13",
       {}},
  };
  for (const std::string& format : kDetectionFormats)
    for (const Case& c : cases) {
      SCOPED_TRACE(format + " " + c.boxes);
      TestFolder dir;
      write_set(dir.path(), format, "train", kPets);
      DataPaths paths = *find_splits(dir.path()).train;
      paths.choice = c.choice;
      const GroundTruth truth = read_ground_truth(paths);
      EXPECT_EQ(describe(truth), c.boxes);
      EXPECT_EQ(categories_text(truth), format == "coco" ? c.of_coco : c.categories);
      for (const std::string& note : c.notes)
        EXPECT_NE(joined_notes(truth).find(note), std::string::npos) << joined_notes(truth);
      const auto set = open_dataset(paths);
      EXPECT_EQ(set->num_classes(), std::ssize(truth.categories));
      EXPECT_EQ(set->num_images(), 3);
      EXPECT_EQ(check_dataset(paths).problems.count(), 0);
    }
}

// The notes on a class map count the whole set, in one line, whatever images are drawn for validation.
TEST(Classes, NotesOnAMapAreOfTheWholeSet) {
  for (const std::string& format : kDetectionFormats) {
    TestFolder dir;
    write_set(dir.path(), format, "train", kPets);
    DataSplits splits = find_splits(dir.path());
    draw_validation(splits, 0.4, 1);
    std::string notes;
    for (auto& paths : {&splits.train, &splits.val}) {
      (*paths)->choice = {.map = {{"dog", "pet"}}};
      notes += joined_notes(read_ground_truth(**paths));
    }
    EXPECT_NE(notes.find("boxes mapped to other classes: \"dog\" 2 as \"pet\""), notes.npos)
        << format << notes;
    EXPECT_EQ(notes.find("mapped to other classes"), notes.rfind("mapped to other classes"))
        << format << notes;
  }
}

TEST(Classes, UnknownNamesAreErrorsInEveryFormat) {
  const std::vector<std::pair<ClassChoice, std::string>> cases{
      {{.only = {"dgo"}},
       "--classes, data.classes: has no class \"dgo\", did you mean \"dog\"? Its classes are "},
      {{.map = {{"buss", "car"}}}, "data.class_map: has no class \"buss\", did you mean \"bus\"?"},
      {{.map = {{"dog", "cat"}}, .only = {"dog"}}, "has no class \"dog\""},
      {{.map = {{"cat", ""}, {"dog", ""}, {"bus", ""}}}, "leaves no class"},
  };
  for (const std::string& format : kDetectionFormats)
    for (const auto& [choice, expected] : cases) {
      TestFolder dir;
      write_set(dir.path(), format, "train", kPets);
      DataPaths paths = *find_splits(dir.path()).train;
      paths.choice = choice;
      for (const std::string& error :
           {input_error([&] { read_ground_truth(paths); }), input_error([&] { open_dataset(paths); }),
            check_dataset(paths).problems.lines().at(0)})
        EXPECT_NE(error.find(expected), std::string::npos) << format << ": " << error;
    }
}

// The validation set has the classes and the ids of the training set.
TEST(Classes, OfAValidationSetAreThoseOfTheTrainingSet) {
  for (const std::string& format : kDetectionFormats) {
    SCOPED_TRACE(format);
    TestFolder dir;
    write_set(dir.path(), format, "train", kPets);
    write_set(dir.path(), format, "val", {{"d.png", "dog"}, {"e.png", "bus"}, {"e.png", "cat"}}, 11,
              {"cat", "dog", "bus"});
    DataSplits splits = find_splits(dir.path());
    splits.train->choice = splits.val->choice = {.map = {{"cat", "dog"}}, .only = {"dog"}};
    const GroundTruth train = read_ground_truth(*splits.train);
    splits.val->categories = train.categories;
    const GroundTruth val = read_ground_truth(*splits.val);
    EXPECT_EQ(categories_text(val), categories_text(train));
    EXPECT_EQ(describe(val), "d.png: dog | e.png: dog");
  }
}

TEST(Union, OfEveryTwoFormatsIsByNames) {
  for (const std::string& first : kDetectionFormats)
    for (const std::string& second : kDetectionFormats) {
      SCOPED_TRACE(first + " " + second);
      TestFolder dir;
      write_set(dir / "A", first, "train", kPets);
      write_set(dir / "B", second, "train", {{"a.png", "Bus"}, {"a.png", "dog"}, {"z.png", "ant"}});
      const DataSplits splits = find_united({dir / "A", dir / "B"}, {});
      const DataPaths& paths = *splits.train;
      EXPECT_EQ(paths.images, dir.path());
      const auto set = open_dataset(paths);  // every image is there
      const GroundTruth& truth = set->ground_truth();
      std::string names;  // of images, without the folders of the formats
      for (const ImageInfo& image : truth.images)
        names += image.file_name.substr(0, 1) + image.file_name.substr(image.file_name.rfind('/')) + " ";
      EXPECT_EQ(names, "A/a.png A/b.png A/c.png B/a.png B/z.png ");
      std::string boxes = describe(truth);
      for (size_t i = 0; i < truth.images.size(); ++i)
        boxes.replace(boxes.find(truth.images[i].file_name), truth.images[i].file_name.size(),
                      std::to_string(i));
      EXPECT_EQ(boxes, "0: cat dog | 1: dog | 2: bus | 3: Bus dog | 4: ant");
      const std::string categories = categories_text(truth);
      const bool by_names = first != "coco" && second != "coco", by_ids = first == "coco" && second == "coco";
      if (by_names || by_ids) {
        EXPECT_EQ(categories,
                  by_ids ? "cat=11 dog=12 bus=13 Bus=14 ant=15" : "bus=1 cat=2 dog=3 Bus=4 ant=5");
      }
      std::string remarks;
      for (const std::string& remark : remarks_on_classes(truth)) remarks += remark;
      EXPECT_NE(remarks.find("differ only in case, spaces, _ or -"), std::string::npos) << remarks;
      EXPECT_EQ(check_dataset(paths).problems.count(), 0);
      // With a choice of classes, its order counts where no list has ids.
      DataPaths chosen = paths;
      chosen.choice = {.map = {{"Bus", "bus"}}, .only = {"dog", "bus"}};
      const GroundTruth some = read_ground_truth(chosen);
      EXPECT_EQ(some.images.size(), 5u);
      EXPECT_EQ(some.annotations.size(), 5u);
      if (by_names) {
        EXPECT_EQ(categories_text(some), "dog=1 bus=2");
      }
    }
}

TEST(Union, IdsOfCocoStayWhereTheyDoNotClash) {
  TestFolder dir;
  write_set(dir / "A", "coco", "train", {{"a.png", "cat"}, {"b.png", "dog"}}, 3);
  write_set(dir / "B", "coco", "train", {{"a.png", "ant"}, {"b.png", "dog"}, {"c.png", "bee"}}, 3);
  write_set(dir / "C", "coco", "train", {{"a.png", "elk"}}, 70);
  const DataSplits splits = find_united({dir / "A", dir / "B", dir / "C"}, {});
  const GroundTruth truth = read_ground_truth(*splits.train);
  EXPECT_EQ(categories_text(truth), "cat=3 dog=4 ant=71 bee=5 elk=70");
  EXPECT_NE(joined_notes(truth).find("1 of 3 category ids changes, \"ant\" from 3 to 71"), std::string::npos)
      << joined_notes(truth);
  ASSERT_EQ(truth.images.size(), 6u);
  for (size_t i = 0; i < truth.images.size(); ++i) EXPECT_EQ(truth.images[i].id, static_cast<int64_t>(i) + 1);
}

TEST(Union, IdsAtTheEndOfTheirRange) {
  TestFolder dir;
  const int64_t last = std::numeric_limits<int64_t>::max();
  for (const auto& [name, image] : {std::pair{"A", last}, std::pair{"B", last}, std::pair{"C", int64_t{7}}}) {
    test::write_picture(dir / (std::string(name) + "/train/a.png"));
    test::write_text(dir / (std::string(name) + "/train/_annotations.coco.json"),
                     fmt::format(R"({{"images":[{{"id":{},"file_name":"a.png"}}],"annotations":[],)"
                                 R"("categories":[{{"id":{},"name":"{}"}}]}})",
                                 image, last, name));
  }
  auto read = [&](const char* first, const char* second) {
    return read_ground_truth(*find_united({dir / first, dir / second}, {}).train);
  };
  EXPECT_NE(input_error([&] { read("A", "B"); }).find("leaves no number"), std::string::npos);
  EXPECT_NE(input_error([&] { read("C", "A"); }).find("the category id 9223372036854775807 leaves no number"),
            std::string::npos);
}

TEST(Union, OnlyKnownClassesCount) {
  TestFolder dir;
  write_set(dir / "A", "voc", "train", {{"a.png", "cat"}});
  write_set(dir / "B", "coco", "train", {{"a.png", "dog"}});
  DataPaths paths = *find_united({dir / "A", dir / "B"}, {}).train;
  paths.categories = {{7, "cat"}};
  EXPECT_NE(
      input_error([&] { read_ground_truth(paths); }).find("1 box has the unknown class \"dog\", expected "),
      std::string::npos);
  paths.choice.only = {"cat"};
  const GroundTruth truth = read_ground_truth(paths);
  EXPECT_EQ(categories_text(truth), "cat=7");
  EXPECT_EQ(truth.images.size(), 2u);
}

// A model keeps the classes that the choice leaves out of the data.
TEST(Union, AModelsClassesStayWithAChoice) {
  TestFolder dir;
  write_set(dir / "A", "coco", "train", {{"a.png", "cat"}, {"b.png", "dog"}});
  DataPaths paths = *find_united({dir / "A"}, {}).train;
  const std::string own = categories_text(read_ground_truth(paths));
  paths.categories = read_ground_truth(paths).categories;
  paths.choice.map = {{"dog", ""}};
  const GroundTruth truth = read_ground_truth(paths);
  EXPECT_EQ(categories_text(truth), own);
  EXPECT_EQ(truth.annotations.size(), 1U);
}

TEST(Union, ImagesStayInTheirFolders) {
  TestFolder dir;
  write_set(dir / "A", "csv", "train", {{"a.png", "cat"}});
  write_set(dir / "B", "csv", "train", {{"../../A/train/a.png", "cat"}});
  DataPaths paths = *find_united({dir / "A", dir / "B"}, {}).train;
  EXPECT_NE(input_error([&] { open_dataset(paths); }).find("--allow-outside"), std::string::npos);
  EXPECT_EQ(check_dataset(paths).problems.count(), 1);
  paths.allow_outside = true;
  const auto set = open_dataset(paths);
  EXPECT_NE(
      joined_notes(set->ground_truth()).find("1 image is in several of the data sets and counts each time"),
      std::string::npos);
}

TEST(Union, OfThePlacesThatHaveASplit) {
  TestFolder dir;
  write_set(dir / "A", "coco", "train", {{"a.png", "cat"}, {"b.png", "cat"}});
  write_set(dir / "B", "yolo", "train", {{"a.png", "cat"}, {"b.png", "cat"}});
  DataSplits splits = find_united({dir / "A", dir / "B"}, {.val_fraction = 0.5});
  EXPECT_EQ(splits.drawn.size(), 2u);
  EXPECT_EQ(read_ground_truth(*splits.train).images.size(), 2u);
  EXPECT_EQ(read_ground_truth(*splits.val).images.size(), 2u);
  write_set(dir / "B", "yolo", "val", {{"c.png", "cat"}});
  splits = find_united({dir / "A", dir / "B"}, {.val_fraction = 0.5});
  EXPECT_TRUE(splits.drawn.empty());
  EXPECT_EQ(read_ground_truth(*splits.train).images.size(), 4u);
  EXPECT_EQ(read_ground_truth(*splits.val).images.size(), 1u);
  ASSERT_EQ(splits.notes.size(), 1u);
  EXPECT_NE(splits.notes[0].find("A: has no val images; those of the other data sets are used"),
            std::string::npos);
}

TEST(Union, ClassFoldersWithoutValidationAreDrawnFrom) {
  TestFolder dir;
  for (int i = 0; i < 12; ++i)
    test::write_picture(dir / fmt::format("A/{}/{}.png", i < 8 ? "cat" : "dog", i));
  test::write_picture(dir / "A/emu/12.png");
  const PlaceOptions options{.wants = {.image_classes = true}, .val_fraction = 0.9, .seed = 3};
  for (const ClassChoice& choice : {ClassChoice{}, ClassChoice{.map = {{"cat", "pet"}}}}) {
    DataSplits splits = find_united({dir / "A"}, options);
    ASSERT_TRUE(splits.val);
    EXPECT_EQ(splits.drawn,
              std::vector<std::string>{dir / "A" +
                                       ": has no validation images, so 90 % of the training images, drawn "
                                       "with seed 3, are used"});
    splits.train->choice = splits.val->choice = choice;
    const auto train = open_dataset(*splits.train), val = open_dataset(*splits.val);
    EXPECT_EQ(train->num_images(), 3) << "each class keeps an image";
    EXPECT_EQ(val->num_images(), 10);
    std::set<std::string> names, labels;
    for (const auto& set : {train, val})
      for (int64_t i = 0; i < set->num_images(); ++i) {
        EXPECT_TRUE(names.insert(set->file_name(i)).second) << set->file_name(i);
        if (set == train) labels.insert(set->class_names().at(static_cast<size_t>(set->labels_of(i).at(0))));
      }
    EXPECT_EQ(labels.size(), 3u);
  }
  for (const char* name : {"B/cat/1.png", "B/dog/1.png"}) test::write_picture(dir / name);
  const DataSplits lone = find_united({dir / "B"}, options);
  EXPECT_NE(input_error([&] { open_dataset(*lone.val); }).find("no class has 2 images"), std::string::npos);
}

TEST(Union, OfClassFolders) {
  TestFolder dir;
  for (const char* name : {"A/train/cat/1.png", "A/train/dog/1.png", "B/train/bee/1.png", "B/train/cat/1.png",
                           "B/val/cat/2.png"})
    test::write_picture(dir / name);
  const DataSplits splits = find_united({dir / "A", dir / "B"}, {.wants = {.image_classes = true}});
  DataPaths train = *splits.train;
  auto set = open_dataset(train);
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"cat", "dog", "bee"}));
  ASSERT_EQ(set->num_images(), 4);
  EXPECT_EQ(set->file_name(3), "B/train/cat/1.png");
  EXPECT_EQ(set->image_path(3), dir / "B/train/cat/1.png");
  EXPECT_EQ(set->labels_of(3), std::vector<int64_t>{0});
  DataPaths known = *splits.val;
  known.categories = set->ground_truth().categories;
  const auto val = open_dataset(known);
  EXPECT_EQ(val->num_images(), 1) << "it need not have all classes";
  train.choice = {.map = {{"dog", "pet"}, {"cat", "pet"}}, .only = {"bee", "pet"}};
  set = open_dataset(train);
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"bee", "pet"}));
  EXPECT_EQ(set->num_images(), 4);
  train.choice = {.only = {"dog"}};
  set = open_dataset(train);
  EXPECT_EQ(set->num_images(), 1);
  const std::vector<std::string>& notes = set->ground_truth().told;
  EXPECT_NE(
      std::find_if(notes.begin(), notes.end(),
                   [](const std::string& n) {
                     return n.find("3 of 4 images left out, those of 2 classes: \"cat\" 2, \"bee\" 1") !=
                            std::string::npos;
                   }),
      notes.end());
  train.choice = {.only = {"dgo"}};
  EXPECT_NE(input_error([&] { open_dataset(train); }).find("did you mean \"dog\""), std::string::npos);
}

}  // namespace
}  // namespace saccade
