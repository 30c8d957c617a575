#include <gtest/gtest.h>

#include "data/formats/coco/coco.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

const char* const kImages = R"("images":[{"id":7,"file_name":"b.png","width":20,"height":10},)"
                            R"({"license":1,"height":30,"width":40,"file_name":"a.png","id":-3}])";
const char* const kCategories =
    R"("categories":[{"id":90,"name":"z"},{"id":4294967299,"name":"big"},{"name":"a","id":2}])";

std::string file_with(const std::string& annotations) {
  return fmt::format(R"({{"info":{{"x":[1,{{}}]}},"annotations":[{}],{},{}}})", annotations, kImages,
                     kCategories);
}

// Returns the message of load() for these annotations.
std::string message(const std::string& annotations) {
  TestFolder dir;
  write_bytes(dir / "a.json", file_with(annotations));
  return input_error([&] { load_coco(dir / "a.json", ""); });
}
void expect_says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\" lacks " << part;
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(CocoDataset, MapsAnyIdsToContiguousClasses) {
  TestFolder dir;
  write_bytes(
      dir / "a.json",
      file_with(
          R"({"id":9007199254740993,"image_id":7,"category_id":4294967299,"bbox":[1,2,3.5,4]},)"
          R"({"segmentation":[[1,2]],"area":5.5,"iscrowd":1,"id":1,"image_id":-3,"category_id":2,)"
          R"("bbox":[0,0,1e1,2]},{"id":2,"image_id":7,"category_id":90,"bbox":[30,0,5,5],"iscrowd":false})"));
  auto set = load_coco(dir / "a.json", "");
  EXPECT_EQ(set.category_ids(), (std::vector<int64_t>{2, 90, 4294967299}));
  EXPECT_EQ(set.class_names(), (std::vector<std::string>{"a", "z", "big"}));
  EXPECT_EQ(set.class_of(4294967299), 2);
  EXPECT_THROW(set.class_of(3), Error);
  ASSERT_EQ(set.num_images(), 2);
  EXPECT_EQ(set.image(0).id, -3);
  ASSERT_EQ(set.annotations_of(0).size(), 1u);
  EXPECT_TRUE(set.annotations_of(0)[0].iscrowd);
  EXPECT_EQ(set.annotations_of(0)[0].area, 5.5);
  ASSERT_EQ(set.annotations_of(1).size(), 2u);
  EXPECT_EQ(set.annotations_of(1)[0].id, 9007199254740993);
  EXPECT_EQ(set.annotations_of(1)[0].area, 14);  // none in the file: the box's
}

TEST(CocoDataset, WithoutAreasThoseOfTheBoxesCount) {
  TestFolder dir;
  write_bytes(dir / "a.json", file_with(R"({"id":1,"image_id":7,"category_id":2,"bbox":[1,2,0.5,0.25]})"));
  EXPECT_EQ(load_coco(dir / "a.json", "").annotations_of(1)[0].area, 0.125);
}

TEST(CocoDataset, CategoryIdsCanBeLabels) {
  TestFolder dir;
  auto write = [&](const char* last) {
    write_bytes(dir / "a.json",
                std::string(R"({"images":[{"id":1,"file_name":"a.png","width":4,"height":4}],)") +
                    R"("annotations":[],"categories":[{"id":3,"name":"c"},)" + last + "]}");
  };
  write(R"({"id":1,"name":"a"})");
  auto set = load_coco(dir / "a.json", "", LabelScheme::kCategoryId);
  EXPECT_EQ(set.num_classes(), 4);
  EXPECT_EQ(set.category_ids(), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(set.class_names(), (std::vector<std::string>{"N/A", "a", "N/A", "c"}));
  EXPECT_EQ(set.class_of(3), 3);
  EXPECT_THROW(set.class_of(2), Error);
  ASSERT_EQ(set.ground_truth().categories.size(), 2u);  // what is evaluated
  EXPECT_EQ(set.ground_truth().categories[1].id, 3);
  EXPECT_EQ(load_coco(dir / "a.json", "").num_classes(), 2);
  for (const char* bad : {R"({"id":-1,"name":"a"})", R"({"id":65536,"name":"a"})"}) {
    write(bad);
    expect_says(input_error([&] { load_coco(dir / "a.json", "", LabelScheme::kCategoryId); }),
                {"a.json", "data.labels: category_id", "from 0 to 65535"});
  }
}

TEST(CocoDataset, NamesTheBadAnnotation) {
  EXPECT_EQ(message(""), "no error");
  expect_says(message(R"({"id":5,"image_id":7,"category_id":90,"bbox":[1,2,3]})"),
              {"a.json", "annotation 5", "bbox"});
  expect_says(message(R"({"bbox":[1,2,3,"x"],"id":5,"image_id":7,"category_id":90})"),
              {"annotation 5", "bbox"});
  expect_says(message(R"({"id":5,"image_id":7,"category_id":90})"), {"annotation 5", "bbox", "missing"});
  expect_says(message(R"({"id":5,"image_id":8,"category_id":90,"bbox":[1,2,3,4]})"),
              {"annotation 5", "image_id 8"});
  expect_says(message(R"({"id":5,"image_id":7,"category_id":91,"bbox":[1,2,3,4]})"),
              {"annotation 5", "category_id 91"});
  expect_says(message(R"({"id":5,"image_id":7.5,"category_id":90,"bbox":[1,2,3,4]})"),
              {"annotation 5", "image_id"});
  expect_says(message(R"({"id":5,"image_id":7,"category_id":"90x","bbox":[1,2,3,4]})"),
              {"annotation 5", "category_id \"90x\" is not in"});
  expect_says(message(R"({"id":5,"image_id":7,"category_id":90,"bbox":[1,2,3,4],"iscrowd":2})"),
              {"annotation 5", "iscrowd"});
  expect_says(message(R"({"id":5,"image_id":7,"category_id":90,"bbox":[1,2,3,1e999]})"), {"a.json"});
  expect_says(message(R"({"id":[],"image_id":7,"category_id":90,"bbox":[1,2,3,4]})"),
              {"number 1 of the list", "id"});
  expect_says(message("17"), {"annotation number 1 of the list", "object"});
  std::string twice = R"({"id":5,"image_id":7,"category_id":90,"bbox":[1,2,3,4]})";
  expect_says(message(twice + "," + twice), {"annotation 5", "2 times"});
}

TEST(CocoDataset, NamesABrokenFile) {
  TestFolder dir;
  auto load = [&](const std::string& text) {
    write_bytes(dir / "a.json", text);
    return input_error([&] { load_coco(dir / "a.json", ""); });
  };
  expect_says(input_error([&] { load_coco(dir / "none.json", ""); }), {"none.json", "cannot read"});
  expect_says(input_error([&] { load_coco(dir.path(), ""); }), {"folder"});
  expect_says(load(""), {"empty"});
  expect_says(load("[1]"), {"object"});
  expect_says(load("{}"), {"\"images\""});
  expect_says(load(R"({"images":[],"annotations":[],"categories":[]})"), {"images is empty"});
  expect_says(load(R"({"images":{},"annotations":[],"categories":[]})"), {"must be a list"});
  expect_says(load(R"({"images":[],"images":[],"annotations":[],"categories":[]})"), {"twice"});
  expect_says(
      load(R"({"images":[{"id":1,"file_name":"a","width":0,"height":5}],"annotations":[],"categories":[]})"),
      {"image 1", "width"});
  expect_says(load("{\n\"images\":[{\"id\" 1}]}"), {"a.json", "line 2"});
  expect_says(load(file_with("") + "x"), {"nothing else"});
  expect_says(load(R"({"images":[{"id":1},)"), {"a.json", "byte 20: ", "is it cut off?"});
  expect_says(load("{\"images\":\"\xFF\"}"), {"a.json"});
  std::string deep = "{\"images\":" + std::string(100000, '[') + "}";
  expect_says(load(deep), {"a.json"});
}

// No damage may crash or hang the reader, and cutting the file anywhere is always noticed.
TEST(CocoDataset, SurvivesEveryCutAndFlippedByte) {
  TestFolder dir;
  std::string good = file_with(R"({"id":5,"image_id":7,"category_id":90,"bbox":[1,2,3,4],"area":1e0})");
  auto load = [&](const std::string& text) {
    write_bytes(dir / "a.json", text);
    return input_error([&] { load_coco(dir / "a.json", ""); });
  };
  ASSERT_EQ(load(good), "no error");
  EXPECT_EQ(load("\xEF\xBB\xBF" + good), "no error");  // a byte-order mark does no harm
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_NE(load(good.substr(0, i)), "no error") << i;
    std::string bad = good;
    bad[i] = "\"{],9\0"[i % 6];
    load(bad);
  }
}

// Segmentations are not needed, but they must be JSON.
TEST(CocoDataset, SegmentationsAreCheckedAndPassedOver) {
  TestFolder dir;
  auto error = [&](const std::string& segmentation) {
    write_bytes(
        dir / "a.json",
        R"({"info": {"segmentation": "x"}, "images":[{"id":1,"file_name":"\"segmentation\":[1]","width":4,"height":4}],
      "annotations":[{"id":1,"image_id":1,"category_id":1,"segmentation" : )" +
            segmentation + R"(,"bbox":[0,1,2,3]}],"categories":[{"id":1,"name":"a"}]})");
    return input_error([&] {
      auto set = load_coco(dir / "a.json", "");
      EXPECT_EQ(set.file_name(0), "\"segmentation\":[1]");
      EXPECT_EQ(set.ground_truth().annotations[0].bbox, (std::array<double, 4>{0, 1, 2, 3}));
    });
  };
  for (const char* good : {"[]", "[[1, 2.5e3],\n[-1]]", "{\"counts\":[1,2],\"size\":[3,4]}", "null",
                           "[[1,null]]", "\"[1\"", "[[ ]]"})
    EXPECT_EQ(error(good), "no error") << good;
  for (const char* bad :
       {"[[1,,2]]", "[[1,2]", "[01]", "[1 2]", "[1,]", "[--1]", "[1]]", "[1x]", "[[1.]]", ""}) {
    const std::string message = error(bad);
    EXPECT_NE(message.find("line 2, byte"), std::string::npos) << bad << ": " << message;
  }
}

TEST(CocoDataset, WantsEveryImageFile) {
  TestFolder dir;
  write_bytes(dir / "a.json", file_with(""));
  auto open = [&](const std::string& folder) {
    return open_dataset({.annotations = dir / "a.json", .images = folder});
  };
  expect_says(input_error([&] { open(dir / "nowhere"); }), {"nowhere", "folder"});
  write_png(Image(10, 20), dir / "b.png");
  expect_says(input_error([&] { open(dir.path()); }), {"a.png: no such file", "image -3"});
  write_png(Image(30, 40), dir / "a.png");
  EXPECT_EQ(open(dir.path())->image_path(0), dir / "a.png");
}

std::vector<std::string> problems_of(const std::string& annotations, const std::string& images) {
  return check_dataset({.annotations = annotations, .images = images}).problems.lines();
}

TEST(CocoCheck, ListsEverythingThatIsWrong) {
  TestFolder dir;
  write_png(Image(10, 20), dir / "b.png");
  write_png(Image(31, 40), dir / "a.png");
  write_bytes(dir / "a.json", file_with(R"({"id":1,"image_id":7,"category_id":90,"bbox":[1,2,3,4]},
    {"id":2,"image_id":7,"category_id":90,"bbox":[1,2,0,4]},{"id":3,"image_id":7,"category_id":90,"bbox":[1,2,3,-4]},
    {"id":4,"image_id":7,"category_id":90,"bbox":[15,2,6,4]},{"id":5,"image_id":70,"category_id":91,"bbox":[1,2,3,4]},
    {"id":6,"image_id":7,"category_id":90,"bbox":[1,2,null,4]},{"id":1,"image_id":7,"category_id":90,"bbox":[0,0,1,1]})"));
  auto problems = problems_of(dir / "a.json", dir.path());
  std::string all;
  for (const auto& p : problems) all += p + ";";
  for (const char* part :
       {"annotation 6: field \"bbox\"", "annotation 1: the id is used 2 times", "annotation 5: image_id 70",
        "annotation 5: category_id 91", "annotation 2 (image 7): the box [1, 2, 0, 4] has no area",
        "annotation 3 (image 7): the box [1, 2, 3, -4] has a negative size", "annotation 4 (image 7)",
        "image -3: "}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  }
  EXPECT_EQ(problems.size(), 8u) << all;
  write_bytes(dir / "b.png", "junk");
  std::filesystem::remove(dir / "a.png");
  EXPECT_EQ(problems_of(dir / "a.json", dir.path()).size(), 9u);
  write_bytes(dir / "a.json", "{");
  EXPECT_EQ(problems_of(dir / "a.json", dir.path()).size(), 1u);
}

TEST(CocoDataset, FieldsThatNobodyReadsAreJsonToo) {
  TestFolder dir;
  auto message_with = [&](const std::string& skipped, bool in_record) {
    const std::string record = R"({"id":5,"image_id":7,"category_id":90,"bbox":[1,2,3,4],"x":)";
    std::string text = file_with(in_record ? record + skipped + "}" : "");
    if (!in_record) text.insert(1, "\"x\":" + skipped + ",");
    write_bytes(dir / "a.json", text);
    return input_error([&] { load_coco(dir / "a.json", ""); });
  };
  for (bool in_record : {false, true}) {
    for (const char* good :
         {"1", "[]", "{}", "[[1,2.5],[3]]", R"({"counts":"a\\b","size":[1,2]})", "null", "\"x\"", " true "})
      EXPECT_EQ(message_with(good, in_record), "no error") << good;
    for (const char* bad :
         {R"({"a" 1})",  "[1,]",       "tru",      "01",      R"("\q")",    "{\"a\":1,}", "[1 2]",
          "[1}",         "{]",         "1.",       "-",       "+1",         ".5",         "1e",
          "nul",         "[,]",        "{,}",      "{\"a\"}", "{a:1}",      "'x'",        "NaN",
          "\"\\u12g4\"", "[[1,2],[3]", "{\"a\":}", "[tru]",   "{\"a\":01}", "0x1",        ""}) {
      const std::string message = message_with(bad, in_record);
      EXPECT_TRUE(message.starts_with(dir / "a.json: line 1, byte ")) << bad << ": " << message;
    }
    const std::string deep = std::string(5000, '[') + std::string(5000, ']');
    EXPECT_NE(message_with(deep, in_record).find("line 1, byte"), std::string::npos);
  }
}

TEST(CocoDataset, RefusesWhatNoDataSetHas) {
  expect_says(message(R"({"id":5,"id":6,"image_id":7,"category_id":90,"bbox":[1,2,3,4]})"),
              {"annotation 6", "\"id\" appears twice"});
  expect_says(message(R"({"id":18446744073709551616,"image_id":7,"category_id":90,"bbox":[1,2,3,4]})"),
              {"number 1 of the list", "\"id\" must be an integer"});
  expect_says(message(R"({"id":5,"image_id":7,"category_id":9223372036854775808,"bbox":[1,2,3,4]})"),
              {"annotation 5", "category_id"});
  TestFolder dir;
  std::string categories;
  for (int i = 0; i < 70000; ++i)
    categories += fmt::format("{}{{\"id\":{},\"name\":\"c\"}}", i ? "," : "", i);
  write_bytes(dir / "a.json", "{\"images\":[],\"annotations\":[],\"categories\":[" + categories + "]}");
  expect_says(input_error([&] {
                read_ground_truth({dir / "a.json", ""});
              }),
              {"a.json: 70000 categories, expected at most 65536"});
}

// Image names must be those of files in the folder of images, unless others are allowed.
TEST(CocoDataset, KeepsToTheFolderOfImages) {
  TestFolder dir;
  std::filesystem::create_directories(dir / "images/below");
  write_png(Image(4, 4), dir / "outside.png");
  write_png(Image(4, 4), dir / "images/in.png");
  std::filesystem::create_symlink(dir / "outside.png", dir / "images/link.png");
  std::filesystem::create_symlink("../in.png", dir / "images/below/link.png");
  std::filesystem::create_symlink(dir / "images", dir / "linked");
  for (auto [name, inside] : {std::pair<std::string, bool>{"in.png", true},
                              {"below/link.png", true},
                              {dir / "outside.png", false},
                              {dir / "images/in.png", false},
                              {"../outside.png", false},
                              {"below/../in.png", false},
                              {"link.png", false}}) {
    write_bytes(
        dir / "a.json",
        "{\"images\":[{\"id\":1,\"file_name\":\"" + name +
            "\",\"width\":4,\"height\":4}],\"annotations\":[],\"categories\":[{\"id\":1,\"name\":\"a\"}]}");
    for (const char* folder : {"images", "linked"}) {
      DataPaths paths{.annotations = dir / "a.json", .images = dir / folder};
      const std::string message = input_error([&] { open_dataset(paths); });
      const auto problems = check_dataset(paths).problems.lines();
      paths.allow_outside = true;
      EXPECT_EQ(input_error([&] { open_dataset(paths); }), "no error") << name;
      EXPECT_EQ(check_dataset(paths).problems.count(), 0) << name;
      if (inside) {
        EXPECT_EQ(message, "no error") << name;
        EXPECT_TRUE(problems.empty());
      } else {
        expect_says(message, {"outside", "(image 1 of "});
        ASSERT_EQ(problems.size(), 1u) << name;
        expect_says(problems[0], {"a.json: image 1: "});
      }
    }
  }
}

TEST(CocoDataset, SaysHowManyImagesAreBad) {
  TestFolder dir;
  test::make_noise_set(dir, 6);
  const DataPaths paths{.annotations = dir / "a.json", .images = dir.path()};
  std::vector<std::string> notes;
  open_dataset(paths, LabelScheme::kContiguous, &notes);
  EXPECT_TRUE(notes.empty());
  const std::string whole = read_bytes(dir / "3.png");
  write_bytes(dir / "3.png", whole.substr(0, whole.size() - 9));
  expect_says(input_error([&] { open_dataset(paths); }),
              {"3.png: damaged image (the PNG file is cut off)", "(image 13 of "});
  write_bytes(dir / "4.png", "GIF89a");
  std::filesystem::remove(dir / "5.png");
  expect_says(input_error([&] { open_dataset(paths); }),
              {"3.png: damaged", "3 of the 6 images cannot be read"});
  DataPaths skipping = paths;
  skipping.skip_bad_images = true;
  open_dataset(skipping, LabelScheme::kContiguous, &notes);
  ASSERT_EQ(notes.size(), 1u);
  expect_says(notes[0], {"3 of 6 images cannot be read and are skipped", "3.png"});
  for (int i = 0; i < 3; ++i) std::filesystem::remove(dir / fmt::format("{}.png", i));
  expect_says(input_error([&] { open_dataset(skipping); }), {"6 of the 6 images"});
}

TEST(CocoCheck, TellsWhatIsRarelyMeant) {
  TestFolder dir;
  const std::string images =
      R"("images":[{"id":1,"file_name":"a.png","width":20,"height":10},{"id":2,"file_name":"b.png","width":20,"height":10}],)";
  auto remarks = [&](const std::string& annotations, const std::string& categories) {
    write_bytes(dir / "a.json",
                "{" + images + "\"annotations\":[" + annotations + "],\"categories\":[" + categories + "]}");
    const DatasetReport report = check_dataset({.annotations = dir / "a.json"});
    EXPECT_EQ(report.problems.count(), 0);
    std::string all;
    for (const std::string& line : report.remarks) all += line + ";";
    for (const std::string& line : report.summary) all += line + ";";
    return all;
  };
  const std::string one = R"({"id":1,"image_id":1,"category_id":1,"bbox":[1,2,3,4]})";
  std::string all =
      remarks(one + R"(,{"id":2,"image_id":1,"category_id":1,"bbox":[1,2,3,4]})",
              R"({"id":0,"name":"cells"},{"id":1,"name":"a"},{"id":2,"name":"a"},{"id":3,"name":""})");
  for (const char* part :
       {"3 of 4 categories have no annotation: 0 (\"cells\")", "2 categories have the name \"a\"",
        "category 3 has an empty name", "1 box repeats another",
        "2 images, 1 without boxes; 2 boxes, among them 0 crowds; 4 categories",
        "images: 20 pixels wide and 10 high", "boxes: 3 pixels wide and 4 high",
        "boxes by category: \"a\" 2"})
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  EXPECT_NE(remarks("", R"({"id":1,"name":"a"})").find("no image has an annotation"), std::string::npos);
  EXPECT_NE(remarks(one.substr(0, one.size() - 1) + ",\"iscrowd\":1}", R"({"id":1,"name":"a"})")
                .find("all annotations are crowds"),
            std::string::npos);
}

TEST(CocoCheck, ImagesOfOneFileAreProblemsAndBecomeOne) {
  TestFolder dir;
  write_bytes(
      dir / "a.json",
      R"({"images":[{"id":3,"file_name":"a.png","width":20,"height":10},{"id":5,"file_name":"b.png","width":20,"height":10},
      {"id":4,"file_name":"a.png","width":20,"height":10},{"id":9,"file_name":"a.png","width":20,"height":10}],
      "annotations":[{"id":1,"image_id":3,"category_id":1,"bbox":[1,2,3,4]},{"id":2,"image_id":4,"category_id":1,"bbox":[1,2,3,4]},
      {"id":3,"image_id":9,"category_id":1,"bbox":[5,2,3,4]},{"id":4,"image_id":5,"category_id":1,"bbox":[1,2,3,4]}],
      "categories":[{"id":1,"name":"a"}]})");
  GroundTruth left;
  const DatasetReport report = check_dataset({.annotations = dir / "a.json"}, &left);
  const std::vector<std::string> problems = report.problems.lines();
  ASSERT_EQ(report.problems.count(), 2);
  expect_says(problems[0], {"a.json: image 4: has the same file \"a.png\" as image 3"});
  expect_says(problems[1], {"a.json: image 9: has the same file \"a.png\" as image 3"});
  ASSERT_EQ(left.images.size(), 2u);
  ASSERT_EQ(left.annotations.size(), 3u);
  EXPECT_EQ(left.annotations[1].id, 3);
  EXPECT_EQ(left.annotations[1].image_id, 3);
  EXPECT_EQ(left.annotations[2].image_id, 5);
}

TEST(CocoCheck, ThousandsOfEqualProblemsAreGrouped) {
  TestFolder dir;
  std::string images, annotations;
  for (int i = 0; i < 3000; ++i) {
    images +=
        fmt::format("{}{{\"id\":{},\"file_name\":\"{}.png\",\"width\":4,\"height\":4}}", i ? "," : "", i, i);
    annotations += fmt::format("{}{{\"id\":{},\"image_id\":{},\"category_id\":1,\"bbox\":[0,0,{},4]}}",
                               i ? "," : "", i + 1, i, i % 3 ? 4 : 7.5);
  }
  write_bytes(dir / "a.json", "{\"images\":[" + images + "],\"annotations\":[" + annotations +
                                  "],\"categories\":[{\"id\":1,\"name\":\"a\"}]}");
  const DataPaths paths{.annotations = dir / "a.json", .images = dir.path()};
  Findings problems = check_dataset(paths).problems;
  EXPECT_EQ(problems.count(), 1001);
  std::vector<std::string> lines = problems.lines();
  ASSERT_EQ(lines.size(), 22u);
  EXPECT_EQ(lines[20], "... and 980 more like these");
  expect_says(lines[21], {"none of the 3000 images is in the folder", "0.png"});
  write_png(Image(4, 4), dir / "7.png");
  problems = check_dataset(paths).problems;
  EXPECT_EQ(problems.count(), 1000 + 2999);
  EXPECT_EQ(problems.lines().size(), 42u);
}

// The annotations fit the picture as it is stored, and the message says so.
TEST(CocoCheck, SaysThatExifTurnsAPicture) {
  TestFolder dir;
  std::filesystem::copy_file(std::string(SACCADE_SOURCE_DIR) + "/tests/golden/images/turned6.jpg",
                             dir / "a.jpg");
  for (auto [width, height, ok] : {std::tuple{13, 21, true}, {21, 13, false}}) {
    write_bytes(
        dir / "a.json",
        fmt::format(
            "{{\"images\":[{{\"id\":1,\"file_name\":\"a.jpg\",\"width\":{},\"height\":{}}}],\"annotations\":[],"
            "\"categories\":[{{\"id\":1,\"name\":\"a\"}}]}}",
            width, height));
    const DatasetReport report = check_dataset({.annotations = dir / "a.json", .images = dir.path()});
    EXPECT_EQ(report.problems.count(), ok ? 0 : 1);
    if (!ok)
      expect_says(report.problems.lines()[0],
                  {"has 13 x 21 pixels, the annotations say 21 x 13", "EXIF orientation 6"});
    expect_says(report.summary.back(), {"1 image is rotated by the EXIF orientation"});
  }
}

// The real sets next to the project have no faults.
TEST(CocoCheck, RealSetsAreSound) {
  std::string base = std::string(SACCADE_SOURCE_DIR) + "/../shared/data/bccd/";
  if (!std::filesystem::exists(base)) GTEST_SKIP() << base << " is not there";
  auto set = load_coco(base + "annotations/train.json", base + "images");
  EXPECT_EQ(set.num_classes(), 3);
  EXPECT_EQ(problems_of(base + "annotations/val.json", base + "images"), std::vector<std::string>{});
}

}  // namespace
}  // namespace saccade
