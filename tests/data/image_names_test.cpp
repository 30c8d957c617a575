// Tests which image a detection belongs to if the annotations do not number the images.
#include <gtest/gtest.h>

#include "data/evaluation/detections.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

// A list of images with the ids 1, 2, 3.
GroundTruth truth_of(const std::vector<std::string>& names, bool ids_are_places) {
  GroundTruth truth{.categories = {{1, "a"}}};
  for (const std::string& name : names)
    truth.images.push_back({.id = std::ssize(truth.images) + 1, .file_name = name, .width = 9, .height = 9});
  truth.ids_are_places = ids_are_places;
  return truth;
}

TEST(ImageNames, NumbersAreThoseOfTheFilesWhereTheAnnotationsNumberNone) {
  struct Row {
    std::vector<std::string> names;
    bool ids_are_places;
    std::string ids;                // of the entries, as the file writes them
    std::vector<int64_t> expected;  // their images
    size_t notes;
  };
  for (const Row& row : std::vector<Row>{
           {{"3.jpg", "2.jpg", "000001.jpg"}, true, "3 2 1", {1, 2, 3}, 1},
           {{"3.jpg", "2.jpg", "000001.jpg"}, true, "\"3\" \"1\"", {1, 3}, 0},
           {{"3.jpg", "2.jpg", "000001.jpg"}, false, "3 2 1", {3, 2, 1}, 0},
           {{"b/10.jpg", "c/20.jpg", "30.jpg"}, true, "20 30", {2, 3}, 1},
           {{"10.jpg", "20.jpg", "30.jpg"}, true, "1 2", {1, 2}, 0},  // places: earlier files of eval
           {{"1.jpg", "2.jpg", "3.jpg"}, true, "1 2 3", {1, 2, 3}, 0},
           {{"x/1.jpg", "y/1.jpg", "3.jpg"}, true, "1 2", {1, 2}, 0},  // which 1 is meant is not said
           {{"a.jpg", "b.jpg"}, true, "1 2", {1, 2}, 0}}) {
    TestFolder dir;
    std::string text;
    for (size_t at = 0, end = 0; at < row.ids.size(); at = end + 1) {
      end = std::min(row.ids.find(' ', at), row.ids.size());
      text += fmt::format(R"({}{{"image_id": {}, "category_id": 1, "bbox": [1, 1, 2, 2], "score": 0.5}})",
                          text.empty() ? "[" : ", ", row.ids.substr(at, end - at));
    }
    write_bytes(dir / "found.json", text + "]");
    const GroundTruth truth = truth_of(row.names, row.ids_are_places);
    std::vector<std::string> notes;
    std::vector<int64_t> ids;
    for (const Detection& d : read_detections(dir / "found.json", &truth, &notes)) ids.push_back(d.image_id);
    EXPECT_EQ(ids, row.expected) << row.ids << " among " << row.names[0];
    EXPECT_EQ(notes.size(), row.notes) << row.ids << " among " << row.names[0];
  }
}

}  // namespace
}  // namespace saccade
