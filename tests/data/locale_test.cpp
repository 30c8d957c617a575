// Data sets are read alike in the locale of any program that uses libsaccade: with other decimal marks and
// other small letters.
#include <gtest/gtest.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <locale>

#include "core/files/text.h"
#include "data/evaluation/metric_options.h"
#include "data/formats/data_format.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

// Sets the locale as setlocale(LC_ALL, "") and std::locale::global would.
class OtherLocale {
 public:
  explicit OtherLocale(const TestFolder& folder, const std::string& name) {
    const std::string make =
        "localedef -i " + name + " -f UTF-8 '" + (folder / (name + ".UTF-8")) + "' >/dev/null 2>&1";
    if (std::system(make.c_str()) != 0) return;
    ::setenv("LOCPATH", folder.path().c_str(), 1);
    std::locale::global(std::locale(name + ".UTF-8"));
    is_set_ = true;
  }
  ~OtherLocale() {
    std::locale::global(std::locale::classic());
    ::unsetenv("LOCPATH");
  }
  bool is_set() const { return is_set_; }

 private:
  bool is_set_ = false;
};

struct LocaleRow {
  const char *name, *file, *text;  // of one object on a picture of 40 x 20
};
const LocaleRow kRows[] = {
    {"csv", "a.csv", "FILENAME,WIDTH,HEIGHT,CLASS,XMIN,YMIN,XMAX,YMAX\nI.PNG,40,20,x,1.5,2.25,9.5,12.25\n"},
    {"coco", "a.json",
     R"({"images":[{"id":1,"file_name":"I.PNG","width":40,"height":20}],"categories":[{"id":1,"name":"x"}],
         "annotations":[{"id":1,"image_id":1,"category_id":1,"bbox":[1.5,2.25,8,10],"area":80.5}]})"},
    {"yolo", "labels/I.txt", "0 0.1375 0.3625 0.2 0.5\n"},
    {"voc", "Annotations/I.xml",
     "<?xml version='1.0' encoding='ISO-8859-1'?><annotation><filename>I.PNG</filename><size><width>40</width><height>20</height></size>"
     "<object><name>x</name><bndbox><xmin>1.5</xmin><ymin>2.25</ymin><xmax>9.5</xmax><ymax>12.25</ymax></bndbox></object></annotation>"}};

TEST(Locale, ChangesNoDataSet) {
  TestFolder locales;
  for (const char* name : {"de_DE", "tr_TR"}) {
    std::vector<std::string> boxes[2];
    for (const bool other : {false, true}) {
      std::optional<OtherLocale> locale;
      if (other) locale.emplace(locales, name);
      if (other && !locale->is_set())
        GTEST_SKIP() << "localedef makes no " << name << " (Debian's package locales)";
      for (const LocaleRow& row : kRows) {
        TestFolder dir;
        std::filesystem::create_directories(std::filesystem::path(dir / row.file).parent_path());
        std::filesystem::create_directories(dir / "images");
        write_png(Image(20, 40), dir / "images/I.PNG");
        write_bytes(dir / row.file, row.text);
        DataPaths paths{dir / row.file, dir / "images"};
        if (row.name == std::string("voc")) paths.annotations = dir / "Annotations";
        if (row.name == std::string("yolo")) {
          write_bytes(dir / "data.yaml", "path: .\ntrain: images\nnames: [x]\n");
          paths.annotations = dir / "data.yaml";
        }
        const GroundTruth truth = read_ground_truth(paths);
        ASSERT_EQ(truth.annotations.size(), 1u) << row.name << " in " << name;
        const Annotation& a = truth.annotations[0];
        boxes[other].push_back(fmt::format("{} {} {} {} {}", truth.images[0].file_name, a.bbox[0], a.bbox[1],
                                           a.bbox[2], a.bbox[3]));
      }
      EXPECT_EQ(lower_case("XMIN.TIFF"), "xmin.tiff");
      EXPECT_TRUE(has_image_extension("A.TIFF"));
      EXPECT_EQ(parse_area_ranges("a:0.5-1.5"), (std::vector<AreaRange>{{"a", 0.5, 1.5}}));
    }
    EXPECT_EQ(boxes[0], boxes[1]) << name;
  }
}

}  // namespace
}  // namespace saccade
