// Tests CVAT's own XML and LabelMe's JSON as these programs write them and, in all formats, links to folders
// and images that no list names. Malformed files are in tests/train/bad_inputs/formats.table.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/formats/per_image.h"
#include "tests/data/formats/reader_rows.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::both;
using test::check_reading;
using test::Files;
using test::make;
using test::read_all;

std::string cvat(const std::string& images, const std::string& labels = "") {
  const std::string meta =
      labels.empty() ? "" : "<meta><task><labels>" + labels + "</labels></task><dumped>2024</dumped></meta>";
  return "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<annotations><version>1.1</version>" + meta + images +
         "</annotations>\n";
}
std::string cvat_image(const std::string& name, const std::string& shapes, const std::string& more = "") {
  return "<image id=\"0\" name=\"" + name + "\" " + more + " width=\"40\" height=\"20\">" + shapes +
         "</image>\n";
}
std::string cvat_box(const std::string& label, const std::string& more = "") {
  return "<box label=\"" + label + "\" occluded=\"0\" xtl=\"4.0\" ytl=\"2\" xbr=\"14\" ybr=\"12\" " + more +
         "><attribute name=\"box\">1</attribute></box>";
}
std::string cvat_label(const std::string& name, const std::string& more = "") {
  return "<label><name>" + name + "</name><color>#fff</color><attributes/>" + more + "</label>";
}

std::string boxes_in(const Files& files, const std::string& place = "") {
  TestFolder dir;
  make(dir, files);
  std::string text;
  std::vector<std::string> notes;
  const auto set = open_dataset(*find_splits(place.empty() ? dir.path() : dir / place).train,
                                LabelScheme::kContiguous, &notes);
  for (const Annotation& a : set->ground_truth().annotations)
    text += fmt::format("{}:{},{},{},{} ", a.category_id, a.bbox[0], a.bbox[1], a.bbox[2], a.bbox[3]);
  for (const std::string& note : notes)
    text += "\n" + test::without(test::without(note, dir.path() + "/"), dir.path());
  return text;
}

TEST(CvatReader, TakesWhatIsExported) {
  const std::string one = cvat_image("1.png", cvat_box("nut")), two = cvat_image("cam/2.png", "");
  check_reading({
      {{{"annotations.xml", cvat(one + two)}, {"images/1.png", ""}, {"images/cam/2.png", ""}},
       {"cvat train: 1.png(1) cam/2.png"}},
      {{{"annotations.xml", cvat(one)}, {"1.png", ""}}, {"cvat train: 1.png(1)"}},
      {{{"mine.xml", cvat(one)}, {"images/1.png", ""}}, {"cvat train: 1.png(1)"}, "mine.xml"},
      // Only as files do frames of a video have an ending.
      {{{"annotations.xml", cvat(cvat_image("frame_000001", cvat_box("nut")))},
        {"images/frame_000001.PNG", ""}},
       {"cvat train: frame_000001.PNG(1)"}},
      // In a project the subsets are the splits, and folders of images.
      {{{"annotations.xml",
         cvat(cvat_image("1.png", cvat_box("nut"), "subset=\"Train\" task_id=\"1\"") +
              cvat_image("2.png", cvat_box("nut"), "subset=\"Validation\"") +
              cvat_image("3.png", "", "subset=\"test\"") + cvat_image("4.png", "", "subset=\"old\""))},
        {"images/Train/1.png", ""},
        {"images/Validation/2.png", ""},
        {"images/3.png", ""},
        {"images/old/4.png", ""}},
       {"cvat train: Train/1.png(1) | val: Validation/2.png(1) | test: 3.png\n",
        "annotations.xml: 1 image is not in a subset called train, val or test, and is left out, for example \"old\"",
        "1 image in images is not listed and is left out, for example old/4.png"}},
      {{{"annotations.xml", cvat(cvat_image("1.png", cvat_box("nut"), "subset=\"default\""))},
        {"images/default/1.png", ""}},
       {"cvat train: default/1.png(1)"}},
      // A task for each split.
      {{{"train/annotations.xml", cvat(one)},
        {"train/images/1.png", ""},
        {"val/annotations.xml", cvat(cvat_image("2.png", cvat_box("bolt")))},
        {"val/images/2.png", ""}},
       {"cvat train: 1.png(1) | val: 2.png(1)"}},
      {{{"annotations.xml", cvat("<track id=\"0\" label=\"nut\"><box frame=\"0\"/></track>")},
        {"images/1.png", ""}},
       {"error: annotations.xml: line 2: a <track> of a video, expected the images of \"CVAT for images 1.1\""}},
      {{{"annotations.xml", cvat(cvat_image("1.png", cvat_box("nut")), cvat_label("bolt"))},
        {"images/1.png", ""}},
       {"error: annotations.xml: line 2: the class \"nut\" is unknown, expected \"bolt\""}},
  });
}

TEST(CvatReader, ShapesAndLabels) {
  const std::string skeleton =
      "<skeleton label=\"man\"><points label=\"hand\" points=\"1,1\"/></skeleton><tag label=\"nut\"/>";
  EXPECT_EQ(
      boxes_in(
          {{"annotations.xml",
            cvat(cvat_image(
                     "1.png",
                     cvat_box("nut") + cvat_box("bolt", "rotation=\"90.0\"") +
                         "<polygon label=\"nut\" points=\"1.5,2; 5,2;3,9.5\"/>"
                         "<ellipse label=\"nut\" cx=\"10\" cy=\"10\" rx=\"4\" ry=\"2\"/>"
                         "<mask label=\"nut\" rle=\"1, 2\" left=\"3\" top=\"4\" width=\"5\" height=\"6\"/>"
                         "<polyline label=\"nut\" points=\"1,1;2,2\"/>" +
                         skeleton),
                 cvat_label("unused") + cvat_label("nut") + cvat_label("bolt") + cvat_label("nut") +
                     cvat_label("hand", "<type>points</type><parent>man</parent>"))},
           {"images/1.png", ""}}),
      "2:4,2,10,10 3:4,2,10,10 2:1.5,2,3.5,7.5 2:6,8,8,4 2:3,4,5,6 "
      "\nnote: annotations.xml: 4 shapes are not upright boxes (polygons, ellipses, masks or rotated boxes); the upright box around each is used"
      "\nnote: annotations.xml: 3 shapes are left out because only boxes, polygons, ellipses and masks are read, for example annotations.xml: line 2: <polyline>"
      "\nnote: annotations.xml: line 2: the label \"nut\" is listed twice and counts once");
}

std::string shape(const std::string& label, const std::string& points,
                  const std::string& type = "rectangle") {
  return R"({"label":")" + label + R"(","points":)" + points + R"(,"group_id":null,"shape_type":")" + type +
         R"(","flags":{}})";
}
std::string labelme(const std::string& shapes, const std::string& image) {
  return R"({"version":"5.0.1","flags":{},"shapes":[)" + shapes + R"(],"imagePath":")" + image +
         R"(","imageData":null,"imageHeight":20,"imageWidth":40})";
}
const std::string kNut = shape("nut", "[[14,2],[4,12.5]]");

TEST(LabelmeReader, TakesWhatIsSaved) {
  check_reading({
      {{{"1.json", labelme(kNut, "1.png")}, {"1.png", ""}, {"2.json", labelme("", "2.png")}, {"2.png", ""}},
       {"labelme train: 1.png(1) 2.png"}},
      {{{"1.json", labelme(kNut, "1.png")}, {"1.png", ""}, {"2.png", ""}},
       {"labelme train: 1.png(1)\n", "1 image in ", " has no JSON file in "}},
      {{{"1.json", labelme(kNut, "1.png")}, {"1.png", ""}, {"2.png", ""}},
       {"labelme train: 1.png(1)\nnote: 1.json: 1 image in ",
        " is not listed and is left out, for example 2.png"},
       "1.json"},
      {{{"images/1.png", ""}, {"annotations/1.json", labelme(kNut, "..\\\\images\\\\1.png")}},
       {"labelme train: 1.png(1)"}},
      {{{"images/1.png", ""}, {"images/1.json", labelme(kNut, "1.png")}}, {"labelme train: images/1.png(1)"}},
      {{{"cam1/1.png", ""}, {"cam1/1.json", labelme(kNut, "1.png")}}, {"labelme train: cam1/1.png(1)"}},
      // The name of the image in the folder where it was labelled, and the name of another image.
      {{{"1.json", labelme(kNut, "C:\\\\set\\\\1.png")}, {"1.png", ""}}, {"labelme train: 1.png(1)"}},
      {{{"1.json", labelme(kNut, "2.png")}, {"2.json", labelme(kNut, "2.png")}, {"1.png", ""}, {"2.png", ""}},
       {"labelme train: 1.png(1) 2.png(1)\nnote: ",
        "1 JSON file names another image than the one with its own name, which is used, for example 1.json (imagePath 2.png)"}},
      {{{"train/1.json", labelme(kNut, "1.png")},
        {"train/1.png", ""},
        {"val/2.json", labelme(shape("bolt", "[[1,1],[9,9]]"), "2.png")},
        {"val/2.png", ""}},
       {"labelme train: 1.png(1) | val: 2.png(1)"}},
      {{{"annotations/train/1.json", labelme(kNut, "1.png")},
        {"annotations/val/2.json", labelme(kNut, "2.png")},
        {"images/train/1.png", ""},
        {"images/val/2.png", ""}},
       {"labelme train: 1.png(1) | val: 2.png(1)"}},
      {{{"1.json", labelme(kNut, "../1.png")}, {"classes.txt", "bolt\n"}, {"1.png", ""}},
       {"error: 1.json: shape 1: the class \"nut\" is unknown, expected \"bolt\""}},
      {{{"1.json", labelme(kNut, "1.png")}, {"1.png", ""}, {"2.json", R"({"a":1})"}},
       {"error: 2.json: has no \"shapes\", expected a LabelMe file"}},
  });
}

TEST(LabelmeReader, Shapes) {
  EXPECT_EQ(
      boxes_in({{"1.png", ""},
                {"1.json",
                 labelme(kNut + "," + shape("bolt", "[[1.5,2],[5,2],[3,9.5]]", "polygon") + "," +
                             shape("nut", "[[10,10],[13,14]]", "circle") + "," +
                             shape("nut", "[[1,1]]", "point") + "," + shape("nut", "[[1,1],[2,2]]", "line"),
                         "1.png")}}),
      "2:4,2,10,10.5 1:1.5,2,3.5,7.5 2:5,5,10,10 "
      "\nnote: : 2 shapes are not upright boxes (polygons, ellipses, masks or rotated boxes); the upright box around each is used"
      "\nnote: : 2 shapes are left out because only boxes, polygons, ellipses and masks are read, for example 1.json: shape 4: a point");
  EXPECT_EQ(
      boxes_in({{"1.png", ""}, {"1.json", labelme(shape("nut", "[[10,10],[11,11]]", "circle"), "1.png")}})
          .find("1:8.585786,8.585786,2.828428,2.828428 "),
      0u)
      << "rounded like other numbers";
}

// All formats give the notes that COCO gives (DETR #28, yolov5 #7291, gluon-cv #609, labelImg #113,
// openimages #75).
TEST(OtherFormats, ShareTheNotesOnBoxesAndClasses) {
  const std::string parts = shape("nut", "[[0.1,0.2],[0.5,0.6]]"), mark = "\xEF\xBB\xBF";
  std::string boxes, csv = "file_name,class,x1,y1,x2,y2\n", xml;
  for (int i = 0; i < 12; ++i) {
    boxes += (i > 0 ? "," : "") + parts;
    csv += "1.png,nut,0.1,0.2,0.5,0.6\n";
    xml += "<box label=\"nut\" xtl=\"0.1\" ytl=\"0.2\" xbr=\"0.5\" ybr=\"0.6\"/>";
  }
  const std::string note = "12 of 12 boxes are between 0 and 1: they look like fractions of the image";
  for (const Files& files :
       std::vector<Files>{{{"1.json", mark + labelme(boxes, "1.png")}, {"1.png", ""}},
                          {{"annotations.xml", mark + cvat(cvat_image("1.png", xml))}, {"1.png", ""}},
                          {{"train.csv", mark + csv}, {"1.png", ""}}}) {
    TestFolder dir;
    make(dir, files);
    EXPECT_NE(read_all(dir).find(note), std::string::npos) << read_all(dir);
    EXPECT_NE(check_dataset(*find_splits(dir.path()).train).problems.lines().at(0).find(note),
              std::string::npos);
  }
  const std::string two = shape("Nut", "[[1,1],[5,5]]") + "," + kNut;
  for (const Files& files :
       std::vector<Files>{{{"1.json", labelme(two, "1.png")}, {"1.png", ""}},
                          {{"annotations.xml", cvat(cvat_image("1.png", cvat_box("nut") + cvat_box("Nut")))},
                           {"1.png", ""}}}) {
    TestFolder dir;
    make(dir, files);
    const DatasetReport report = check_dataset(*find_splits(dir.path()).train);
    EXPECT_NE(fmt::format("{}", fmt::join(report.remarks, ";")).find("differ only in case, spaces"),
              std::string::npos);
  }
  // Validation sets that lack a class, and Windows file names.
  for (const Files& files :
       std::vector<Files>{{{"train/1.json", labelme(kNut + "," + shape("bolt", "[[1,1],[5,5]]"), "1.png")},
                           {"train/1.png", ""},
                           {"val/2.json", labelme(kNut, "a\\\\2.png")},
                           {"val/a/2.png", ""}},
                          {{"annotations.xml",
                            cvat(cvat_image("1.png", cvat_box("nut") + cvat_box("bolt"), "subset=\"train\"") +
                                 cvat_image("a\\2.png", cvat_box("nut"), "subset=\"val\""))},
                           {"1.png", ""},
                           {"a/2.png", ""}}}) {
    TestFolder dir;
    make(dir, files);
    const DataSplits splits = find_splits(dir.path());
    for (const auto& paths : {splits.train, splits.val})
      EXPECT_EQ(open_dataset(*paths)->class_names(), (std::vector<std::string>{"bolt", "nut"}));
    EXPECT_EQ(open_dataset(*splits.val)->file_name(0), "a/2.png");
  }
  std::string difficult = kNut;
  difficult.insert(1, "\"difficult\":true,");
  EXPECT_NE(boxes_in({{"1.json", labelme(difficult, "1.png")}, {"1.png", ""}})
                .find("1 object is marked as difficult"),
            std::string::npos);
}

// The images that each format lists, and those that its folder holds besides.
TEST(UnnamedImages, AreCountedInEachFormat) {
  auto coco = [](const std::string& file) {
    return "{\"images\":[{\"id\":1,\"file_name\":\"" + file +
           R"(","width":40,"height":20}],"annotations":[],"categories":[{"id":1,"name":"bolt"}]})";
  };
  const std::string csv = "file_name,class,x1,y1,x2,y2\n", voc = "<annotation><filename/></annotation>";
  const Files images{
      {"images/1.png", ""}, {"images/2.png", ""}, {"images/3.png", ""}, {"images/sub/4.heic", "x"}};
  check_reading({
      {both(images, {{"train.json", coco("1.png")}, {"val.json", coco("./2.png")}}),
       {"coco train: 1.png | val: ./2.png\nnote: train.json: 2 images in images are not listed and are left out, for example 3.png",
        "note: val.json: 2 images in images are not listed and are left out, for example 3.png"}},
      {both(images, {{"train.csv", csv + "1.png,nut,1,1,3,3\n2.png,,,,,\n"},
                     {"val.csv", csv + "3.png,nut,1,1,3,3\n"}}),
       {"csv train: 1.png(1) 2.png | val: 3.png(1)\nnote: train.csv: 1 image in images is not listed and is left out, for example "
        "sub/4.heic\nnote: val.csv: 1 image in images is not listed and is left out, for example sub/4.heic"}},
      {both(images, {{"Annotations/1.xml", voc},
                     {"Annotations/2.xml", voc},
                     {"classes.txt", "nut\n"},
                     {"ImageSets/Main/train.txt", "1\n"},
                     {"ImageSets/Main/val.txt", "2\n"}}),
       {"voc train: 1.png | val: 2.png\n",
        "train.txt: 2 images in images are not listed and are left out, for example 3.png"}},
      {both(images, {{"data.yaml", "names: [a]\ntrain: train.txt\nval: val.txt\n"},
                     {"train.txt", "images/1.png\n"},
                     {"val.txt", "images/2.png\n"},
                     {"labels/1.txt", ""},
                     {"labels/2.txt", ""}}),
       {"yolo train: images/1.png | val: images/2.png\n", "2 images in ",
        "are not listed and are left out, for example images/3.png"}},
      {both(images, {{"annotations.xml", cvat(cvat_image("1.png", cvat_box("nut")))}}),
       {"cvat train: 1.png(1)\nnote: annotations.xml: 3 images in images are not listed and are left out, for example 2.png"}},
      // All images are named, or are in the list of another split.
      {{{"images/1.png", ""},
        {"images/2.png", ""},
        {"train.json", coco("1.png")},
        {"val.json", coco("2.png")}},
       {"coco train: 1.png | val: 2.png"}},
  });
}

TEST(Links, ToFoldersAreFollowedOnceAndInOrder) {
  TestFolder dir, other;
  make(dir, {{"images/b/1.png", ""}, {"images/2.png", ""}});
  make(other, {{"x/3.png", ""}, {"x/deep/4.png", ""}});
  fs::create_directory_symlink("b", dir / "images/a");      // the folder's own name counts
  fs::create_directory_symlink("..", dir / "images/b/up");  // a cycle
  fs::create_directory_symlink(other / "x", dir / "images/far");
  fs::create_directory_symlink(other / "x", dir / "images/far2");  // once more
  fs::create_directory_symlink(dir / "images", other / "x/back");
  fs::create_directory_symlink("../..", dir / "images/above");
  const FolderListing listing = list_tree(dir / "images");
  EXPECT_EQ(listing.images, (std::vector<std::string>{"2.png", "b/1.png", "far/3.png", "far/deep/4.png"}));
  EXPECT_EQ(listing.links, (std::vector<std::string>{"far"}));
  EXPECT_EQ(listing.around, (std::vector<std::string>{"above"}));
}

TEST(Links, AreInsideWhereTheFolderIsListedButNotForNamesInLists) {
  TestFolder dir, other;
  make(other, {{"2.png", ""}, {"2.txt", "0 0.5 0.5 0.5 0.5\n"}, {"2.json", labelme(kNut, "2.png")}});
  make(dir, {{"images/1.png", ""},
             {"labels/1.txt", ""},
             {"data.yaml", "names: [a]\ntrain: images\n"},
             {"lists/data.yaml", "names: [a]\npath: ..\ntrain: train.txt\n"},
             {"train.txt", "images/1.png\nimages/far/2.png\n"},
             {"boxes.csv", "file_name,class,x1,y1,x2,y2\nfar/2.png,nut,1,1,3,3\n"},
             {"json/1.json", labelme(kNut, "1.png")},
             {"json/1.png", ""}});
  fs::create_directory_symlink(other.path(), dir / "images/far");
  fs::create_directory_symlink(other.path(), dir / "json/far");
  const std::string followed =
      "1 link to a folder in images leads out of it and is followed, for example far (to ";
  const std::string yolo = read_all(dir, "data.yaml"), json = read_all(dir, "json");
  EXPECT_TRUE(yolo.starts_with("yolo train: 1.png far/2.png(1)\n")) << yolo;
  EXPECT_NE(yolo.find(followed), std::string::npos) << yolo;
  EXPECT_TRUE(json.starts_with("labelme train: 1.png(1) far/2.png(1)\n")) << json;
  for (const char* list : {"boxes.csv", "lists/data.yaml"})
    EXPECT_NE(read_all(dir, list).find("a symbolic link leads out of the folder, to "), std::string::npos)
        << read_all(dir, list);
  // One of several folders is a link.
  make(dir, {{"linked/data.yaml", "names: [a]\ntrain: [../images/own, ../images/far]\n"},
             {"images/own/3.png", ""}});
  const std::string several = read_all(dir, "linked/data.yaml");
  EXPECT_TRUE(several.starts_with("yolo train: own/3.png far/2.png(1)\n")) << several;
  EXPECT_NE(several.find(followed), std::string::npos) << several;
  // The folder itself may be a link.
  fs::create_directory_symlink(other.path(), dir / "train");
  make(dir, {{"itself/data.yaml", "names: [a]\ntrain: ../train\n"}});
  EXPECT_EQ(read_all(dir, "itself/data.yaml"), "yolo train: 2.png(1)");
}

}  // namespace
}  // namespace saccade
