// Tests what a check and training say about a record: the file and the place in it, where the ids are not the
// file's own.
#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <algorithm>

#include "data/formats/checks/findings.h"
#include "data/formats/joining/united_paths.h"
#include "tests/data/formats/reader_rows.h"

namespace saccade {
namespace {

using test::Files;
using test::make;
using test::without;

struct PlaceRow {
  Files files;
  std::vector<std::string> problems;  // whole lines
  std::string note;                   // part of what training says
};

void check_places(const PlaceRow& row, const std::vector<std::string>& folders) {
  TestFolder dir;
  std::vector<DataSplits> found;
  DataPaths all;
  for (const std::string& folder : folders) {
    Files files = row.files;
    for (auto& [name, text] : files) name = folder + name;
    make(dir, files);
    all = *find_splits(dir / folder).train;
    all.beside.clear();
    found.push_back({.train = all});
  }
  if (folders.size() > 1) {
    std::vector<DataPaths> sets;
    for (const DataSplits& splits : found) sets.push_back(*splits.train);
    all = unite_paths(sets);
  }
  std::vector<std::string> lines = check_dataset(all).problems.lines();
  for (std::string& line : lines) line = without(line, dir.path() + "/");
  for (const std::string& folder : folders)
    for (const std::string& problem : row.problems) {
      std::string expected = problem;
      for (size_t at = 0; (at = expected.find('~', at)) != std::string::npos;)
        expected.replace(at, 1, folder);
      EXPECT_EQ(std::ranges::count(lines, expected), 1) << expected << "\nis not one of\n"
                                                        << fmt::format("{}", fmt::join(lines, "\n"));
    }
  EXPECT_EQ(lines.size(), folders.size() * row.problems.size()) << fmt::format("{}", fmt::join(lines, "\n"));
  std::vector<std::string> notes;
  all.look_at_images = false;
  try {
    open_dataset(all, LabelScheme::kContiguous, &notes);
  } catch (const InputError&) {
    EXPECT_EQ(row.note, "");
  }
  const bool is_told = std::ranges::any_of(notes, [&](const std::string& note) {
    return without(note, dir.path() + "/").find(without(row.note, "~")) != std::string::npos;
  });
  EXPECT_TRUE(row.note.empty() || is_told) << row.note << "\nis not in\n"
                                           << fmt::format("{}", fmt::join(notes, "\n"));
}

std::string voc_file(const std::string& objects) {
  return "<annotation>\n<size><width>40</width><height>20</height></size>\n" + objects + "</annotation>\n";
}
std::string voc_object(int x1, int x2) {
  return fmt::format(
      "<object><name>nut</name><bndbox><xmin>{}</xmin><ymin>1</ymin><xmax>{}</xmax><ymax>9</ymax></bndbox></object>\n",
      x1, x2);
}

const std::vector<PlaceRow> kPlaceRows{
    {{{"data.yaml", "names: [nut]\ntrain: images\n"},
      {"images/1.png", ""},
      {"images/2.png", "no picture"},
      {"labels/1.txt", "0 0.5 0.5 0.25 0.5\n\n0 0.5 0.5 0 0.5\n0 1 0.5 0.5 0.5\n"}},
     {"~labels/1.txt: line 3: the box [20, 5, 0, 10] has no area",
      "~labels/1.txt: line 4: the box [30, 5, 20, 10] reaches outside the image of 40 x 20 pixels",
      "~data.yaml: ~images/2.png: not an image in a supported format, expected JPEG, PNG, BMP, WebP, GIF or TIFF"},
     "for example ~labels/1.txt: line 4"},
    {{{"data.yaml", "names: [nut]\ntrain: list.txt\n"},
      {"list.txt", "images/1.png\n\nimages/none.png\n"},
      {"images/1.png", ""},
      {"labels/1.txt", ""}},
     {"~list.txt: line 3: ~images/none.png: no such file"},
     ""},
    {{{"Annotations/1.xml", voc_file(voc_object(1, 5) + voc_object(30, 50) + voc_object(7, 7))},
      {"Annotations/2.xml", voc_file(voc_object(1, 5))},
      {"JPEGImages/1.png", ""}},
     {"~Annotations/1.xml: line 4: the box [30, 1, 20, 8] reaches outside the image of 40 x 20 pixels",
      "~Annotations/1.xml: line 5: the box [7, 1, 0, 8] has no area",
      "~Annotations/2.xml: ~JPEGImages/2.jpg: no such file"},
     "for example ~Annotations/1.xml: line 4"},
    {{{"annotations.csv",
       "file_name,class,x1,y1,x2,y2,width,height\n1.png,nut,1,1,5,5,40,20\n1.png,nut,30,1,50,9,40,20\n"
       "none.png,nut,1,1,5,5,40,20\n"},
      {"1.png", ""}},
     {"~annotations.csv: line 3: the box [30, 1, 20, 8] reaches outside the image of 40 x 20 pixels",
      "~annotations.csv: line 4: ~none.png: no such file"},
     "for example ~annotations.csv: line 3"},
    {{{"1.png", ""},
      {"1.json",
       R"({"imagePath":"1.png","imageWidth":41,"imageHeight":20,"shapes":[
        {"label":"nut","points":[[1,1],[5,5]],"shape_type":"rectangle"},
        {"label":"nut","points":[[30,1],[50,9]],"shape_type":"rectangle"},
        {"label":"nut","points":[[3,3],[3,3]],"shape_type":"rectangle"}]})"}},
     {"~1.json: shape 2: the box [30, 1, 20, 8] reaches outside the image of 41 x 20 pixels",
      "~1.json: shape 3: the box [3, 3, 0, 0] has no area",
      "~1.json: ~1.png has 40 x 20 pixels, the annotations say 41 x 20"},
     "for example ~1.json: shape 2"},
    {{{"annotations.xml",
       "<annotations>\n<image name=\"1.png\" width=\"40\" height=\"20\">\n"
       "<box label=\"nut\" xtl=\"30\" ytl=\"1\" xbr=\"50\" ybr=\"9\"/>\n"
       "<box label=\"nut\" xtl=\"5\" ytl=\"1\" xbr=\"5\" ybr=\"9\"/>\n</image>\n"
       "<image name=\"none.png\"/>\n<image name=\"1.png\"/>\n</annotations>\n"},
      {"images/1.png", ""}},
     {"~annotations.xml: line 3: the box [30, 1, 20, 8] reaches outside the image of 40 x 20 pixels",
      "~annotations.xml: line 4: the box [5, 1, 0, 8] has no area",
      "~annotations.xml: line 6: ~images/none.png: no such file",
      "~annotations.xml: line 7: has the same file \"1.png\" as ~annotations.xml: line 2"},
     ""}};

TEST(Places, ChecksNameTheFileAndTheLine) {
  for (const PlaceRow& row : kPlaceRows) check_places(row, {""});
}

// With several data sets the record's own file is named, also where ids change.
TEST(Places, AreThoseOfEachOfSeveralSets) {
  for (PlaceRow row : kPlaceRows) {
    if (row.files[0].first == "annotations.xml") continue;  // one image twice makes two of each
    row.note = "";
    check_places(row, {"a/", "b/"});
  }
  const auto coco = [](int id) {
    return R"({"images":[{"id":1,"file_name":"1.png","width":40,"height":20}],"categories":[{"id":1,"name":"nut"}],)" +
           fmt::format(R"("annotations":[{{"id":{},"image_id":1,"category_id":1,"bbox":[1,1,0,4]}}]}})", id);
  };
  TestFolder dir;
  make(dir, {{"a/a.json", coco(7)}, {"b/b.json", coco(7)}, {"a/1.png", ""}, {"b/1.png", ""}});
  const DataPaths all = unite_paths({{.annotations = dir / "a/a.json", .images = dir / "a"},
                                     {.annotations = dir / "b/b.json", .images = dir / "b"}});
  const std::vector<std::string> lines = check_dataset(all).problems.lines();
  for (const char* name : {"a/a.json", "b/b.json"})
    EXPECT_EQ(std::ranges::count(lines, dir / name + ": annotation 7: the box [1, 1, 0, 4] has no area"), 1)
        << fmt::format("{}", fmt::join(lines, "\n"));
}

TEST(Places, FaultsOfManyFilesAreOfOneKind) {
  Findings findings;
  for (int i = 0; i < 1000; ++i)
    findings.add(fmt::format("labels/{0}{0:x}.txt: line {0}: expected a class from 0 to 1, found \"7\"", i));
  for (int i = 0; i < 30; ++i) findings.add(fmt::format("{:x}.json: shape {}: the label is empty", i, i));
  const std::vector<std::string> lines = findings.lines();
  ASSERT_EQ(lines.size(), 42u);
  EXPECT_EQ(lines[20], "... and 980 more like these");
  EXPECT_EQ(lines[41], "... and 10 more like these");
}

}  // namespace
}  // namespace saccade
