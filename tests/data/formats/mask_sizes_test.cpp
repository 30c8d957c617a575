// Tests masks and the sizes of their images, where lists and files disagree.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/formats/checks/image_check.h"
#include "data/formats/data_format.h"
#include "tests/data/formats/reader_rows.h"

namespace saccade {
namespace {

// `size` is what the list says about the image.
std::string list_of_one_mask(const std::string& segmentation, const std::string& size) {
  return fmt::format(
      R"({{"images":[{{"id":1,"file_name":"a.png"{}}}],"annotations":[{{"id":7,"image_id":1,"category_id":1,)"
      R"("bbox":[1,1,2,2],"segmentation":{}}}],"categories":[{{"id":1,"name":"a"}}]}})",
      size, segmentation);
}

TEST(MaskSizes, AreThoseOfTheFiles) {
  TestFolder dir;
  write_png(Image(4, 6), dir / "a.png");
  const std::string right = R"(,"width":6,"height":4)";
  for (const std::string& said : {std::string(), std::string(R"(,"width":4,"height":6)"), right})
    for (const bool masks : {true, false}) {
      write_bytes(dir / "a.json", list_of_one_mask("[[0,0,6,0,6,4]]", said));
      DataPaths paths{.annotations = dir / "a.json", .images = dir.path()};
      paths.wants.masks = masks;
      EXPECT_EQ(open_dataset(paths)->size_of(0) == (ImageSize{4, 6}), masks || said == right) << said;
      // If only the file tells the size, it is read whatever the time limit.
      const std::string images = std::exchange(paths.images, "");
      const auto unseen = open_dataset(paths);
      paths.images = images;
      const Dataset set(paths.annotations, images, unseen->ground_truth(), LabelScheme::kContiguous);
      EXPECT_EQ(check_image_files(set, paths, -1).sizes.at(0) == (ImageSize{4, 6}), masks && said.empty())
          << said;
    }
}

TEST(MaskSizes, MasksOfNoPixelAreTold) {
  TestFolder dir;
  const std::pair<const char*, bool> rows[] = {{"[[1,1,2,2,3,3]]", true},
                                               {"[[1,1,1,1,1,1]]", true},
                                               {"[[1.1,1.1,1.2,1.1,1.2,1.2]]", true},
                                               {"[[7,1,9,1,9,3]]", true},
                                               {R"({"size":[4,6],"counts":[24]})", true},
                                               {"[[1,1,2,2,3,3],[0,0,3,0,3,3]]", false},
                                               {"[[1,1,2,1,2,1.9,1,1.9]]", false}};
  for (const auto& [segmentation, is_told] : rows) {
    write_bytes(dir / "a.json", list_of_one_mask(segmentation, R"(,"width":6,"height":4)"));
    const GroundTruth truth = read_ground_truth(
        {.annotations = dir / "a.json", .images = "", .wants = {.boxes = true, .masks = true}});
    EXPECT_EQ(truth.annotations.at(0).segmentation->mask({4, 6}).area() == 0, is_told) << segmentation;
    std::vector<std::string> told;
    if (is_told) told.push_back("1 mask has no pixel in the image, for example that of annotation 7");
    EXPECT_EQ(truth.notes, told) << segmentation;
  }
}

}  // namespace
}  // namespace saccade
