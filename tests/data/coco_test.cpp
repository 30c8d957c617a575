#include <gtest/gtest.h>

#include "data/formats/coco.h"
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

// What load() says about these annotations.
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
  EXPECT_EQ(set.empty_boxes(), 1);               // the one beyond the right border
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
  expect_says(message(R"({"id":5,"image_id":7,"category_id":"90","bbox":[1,2,3,4]})"),
              {"annotation 5", "category_id"});
  expect_says(message(R"({"id":5,"image_id":7,"category_id":90,"bbox":[1,2,3,4],"iscrowd":2})"),
              {"annotation 5", "iscrowd"});
  expect_says(message(R"({"id":5,"image_id":7,"category_id":90,"bbox":[1,2,3,1e999]})"), {"a.json"});
  expect_says(message(R"({"id":"5","image_id":7,"category_id":90,"bbox":[1,2,3,4]})"),
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

TEST(CocoDataset, WantsEveryImageFile) {
  TestFolder dir;
  write_bytes(dir / "a.json", file_with(""));
  expect_says(input_error([&] { load_coco(dir / "a.json", dir / "nowhere"); }), {"nowhere", "folder"});
  write_png(Image(10, 20), dir / "b.png");
  expect_says(input_error([&] { load_coco(dir / "a.json", dir.path()); }), {"a.png", "image -3"});
  write_png(Image(30, 40), dir / "a.png");
  EXPECT_EQ(load_coco(dir / "a.json", dir.path()).image_path(0), dir / "a.png");
}

TEST(CocoCheck, ListsEverythingThatIsWrong) {
  TestFolder dir;
  write_png(Image(10, 20), dir / "b.png");
  write_png(Image(31, 40), dir / "a.png");
  write_bytes(dir / "a.json", file_with(R"({"id":1,"image_id":7,"category_id":90,"bbox":[1,2,3,4]},
    {"id":2,"image_id":7,"category_id":90,"bbox":[1,2,0,4]},{"id":3,"image_id":7,"category_id":90,"bbox":[1,2,3,-4]},
    {"id":4,"image_id":7,"category_id":90,"bbox":[15,2,6,4]},{"id":5,"image_id":70,"category_id":91,"bbox":[1,2,3,4]},
    {"id":6,"image_id":7,"category_id":90,"bbox":[1,2,null,4]},{"id":1,"image_id":7,"category_id":90,"bbox":[0,0,1,1]})"));
  auto problems = check_coco(dir / "a.json", dir.path());
  std::string all;
  for (const auto& p : problems) all += p + ";";
  for (const char* part :
       {"annotation 6: field \"bbox\"", "annotation 1: the id is used 2 times", "annotation 5: image_id 70",
        "annotation 5: category_id 91", "annotation 2 (image 7): the box [1, 2, 0, 4] has no size",
        "annotation 3 (image 7): the box [1, 2, 3, -4] has a negative size", "annotation 4 (image 7)",
        "image -3: "}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  }
  EXPECT_EQ(problems.size(), 8u) << all;
  write_bytes(dir / "b.png", "junk");
  std::filesystem::remove(dir / "a.png");
  EXPECT_EQ(check_coco(dir / "a.json", dir.path()).size(), 9u);
  write_bytes(dir / "a.json", "{");
  EXPECT_EQ(check_coco(dir / "a.json", dir.path()).size(), 1u);
}

// The real sets that lie beside the project have nothing wrong.
TEST(CocoCheck, RealSetsAreSound) {
  std::string base = std::string(SACCADE_SOURCE_DIR) + "/../shared/data/bccd/";
  if (!std::filesystem::exists(base)) GTEST_SKIP() << base << " is not there";
  auto set = load_coco(base + "annotations/train.json", base + "images");
  EXPECT_EQ(set.num_classes(), 3);
  EXPECT_EQ(check_coco(base + "annotations/val.json", base + "images"), std::vector<std::string>{});
}

}  // namespace
}  // namespace saccade
