// Tests the counts of pixels against numpy's, and numbers in PNG files against Pillow's.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "core/types/label_map.h"
#include "data/evaluation/evaluators.h"
#include "data/evaluation/label_counts.h"
#include "data/images/stored_pixels.h"
#include "tests/input_error.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

const std::string kLabelMapGolden = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/segmentation/";

template <class T>
std::vector<T> numbers_in(std::istream& in) {
  std::string line, word;
  std::getline(in, line);
  std::vector<T> numbers;
  for (std::istringstream words(line); words >> word;) numbers.push_back(static_cast<T>(std::stod(word)));
  return numbers;
}

// No value stands for numpy's NaN.
void expect_numpys(const std::optional<double>& ours, double theirs) {
  if (std::isnan(theirs))
    EXPECT_FALSE(ours);
  else
    EXPECT_EQ(ours, theirs);
}

TEST(LabelCounts, AreNumpysOnRandomCases) {
  std::ifstream file(kLabelMapGolden + "miou.txt");
  int cases = 0;
  for (std::vector<int64_t> head; (head = numbers_in<int64_t>(file)).size() == 2; ++cases) {
    SCOPED_TRACE(cases);
    const auto found = numbers_in<uint16_t>(file), truth = numbers_in<uint16_t>(file);
    const auto iou = numbers_in<double>(file), accuracy = numbers_in<double>(file),
               means = numbers_in<double>(file);
    ASSERT_EQ(std::ssize(found), head[1]);
    // The counts are made in two processes.
    LabelCounts counts(head[0]), other(head[0]);
    const size_t half = found.size() / 2;
    counts.add(std::span(found).first(half), std::span(truth).first(half));
    other.add(std::span(found).subspan(half), std::span(truth).subspan(half));
    counts.merge(other.state());
    const auto classes = counts.of_classes();
    ASSERT_EQ(classes.size(), iou.size());
    for (size_t k = 0; k < iou.size(); ++k) {
      expect_numpys(classes[k].iou(), iou[k]);
      expect_numpys(classes[k].accuracy(), accuracy[k]);
    }
    EXPECT_DOUBLE_EQ(counts.means().iou, means[0]);  // numpy adds pairwise
    EXPECT_DOUBLE_EQ(counts.means().accuracy, means[1]);
    EXPECT_EQ(counts.means().pixel_accuracy, means[2]);
  }
  EXPECT_EQ(cases, 24);
}

TEST(LabelCounts, MakeTheFiguresOfTheEvaluator) {
  GroundTruth truth;
  truth.categories = {{4, "sky"}, {7, "sea"}, {9, "nowhere"}};
  const auto evaluator = evaluators("segmentation").find("miou").start({.truth = &truth, .per_class = true});
  const std::vector<uint16_t> found{0, 0, 1, 1, 2}, labels{0, 1, 1, 1, LabelMap::kIgnored};
  evaluator->add({.labels = found, .true_labels = labels});
  const Evaluation result = evaluator->result();
  EXPECT_EQ(metric_of(result.metrics, "mIoU"), (0.5 + 2.0 / 3) / 2);
  EXPECT_EQ(metric_of(result.metrics, "mAcc"), (1 + 2.0 / 3) / 2);
  EXPECT_EQ(metric_of(result.metrics, "aAcc"), 0.75);
  EXPECT_NE(result.json.find("{\"name\": \"nowhere\", \"IoU\": null, \"accuracy\": null, \"pixels\": 0}"),
            std::string::npos)
      << result.json;
  EXPECT_NE(result.table.find("nowhere"), std::string::npos);
  EXPECT_EQ(result.of_classes.size(), 2U);
  const auto empty = evaluators("segmentation").find("miou").start({.truth = &truth});
  EXPECT_THROW((void)empty->result(), InputError);
  EXPECT_THROW(LabelCounts(LabelCounts::kMaxClasses + 1), InputError);
}

TEST(StoredPixels, AreThoseThatPillowWrote) {
  struct Row {
    const char* file;
    int bits;
    uint16_t classes, step;
  };
  for (const Row& row : {Row{"grey8.png", 8, 5, 1}, Row{"grey16.png", 16, 5, 300}, Row{"grey1.png", 1, 2, 1},
                         Row{"palette8.png", 8, 5, 1}, Row{"palette4.png", 4, 5, 1}, Row{"rgb.png", 8, 5, 0},
                         Row{"grey_alpha.png", 8, 5, 1}, Row{"rgb_alpha.png", 8, 5, 0}}) {
    SCOPED_TRACE(row.file);
    const StoredPixels stored = read_stored_pixels(kLabelMapGolden + row.file);
    const std::vector<uint32_t> colors{0x000000, 0x800000, 0x008040, 0x11c805, 0xffffff};
    ASSERT_EQ(stored.size, (ImageSize{7, 9}));
    EXPECT_EQ(stored.bits, row.bits);
    EXPECT_EQ(stored.palette.size(), std::string(row.file).starts_with("palette") ? 1U << row.bits : 0U);
    for (size_t i = 0; i < 63; ++i) {
      const size_t label = (3 * (i / 9) + i % 9) % row.classes;
      if (row.step == 0)
        ASSERT_EQ(stored.colors[i], colors[label]);
      else
        ASSERT_EQ(stored.values[i], label * row.step);
      if (!stored.palette.empty()) {
        ASSERT_EQ(stored.palette.at(label), colors[label]);
      }
    }
  }
}

TEST(StoredPixels, ComeBackAsTheyWereWritten) {
  TestFolder folder;
  std::vector<uint32_t> palette(256, 0);
  for (size_t i = 0; i < palette.size(); ++i) palette[i] = static_cast<uint32_t>(i * 40503);
  for (const uint16_t greatest : {uint16_t{1}, uint16_t{255}, uint16_t{256}, uint16_t{65535}}) {
    SCOPED_TRACE(greatest);
    std::vector<uint16_t> values(5 * 3);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(greatest * i / 14);
    write_stored_pixels(folder / "a.png", {5, 3}, values);
    const StoredPixels grey = read_stored_pixels(folder / "a.png");
    EXPECT_EQ(grey.values, values);
    EXPECT_EQ(grey.bits, greatest > 255 ? 16 : 8);
    if (greatest > 255) continue;
    write_stored_pixels(folder / "b.png", {5, 3}, values, palette);
    EXPECT_EQ(read_stored_pixels(folder / "b.png").values, values);
    EXPECT_EQ(read_stored_pixels(folder / "b.png").palette, palette);
  }
  const std::string whole = read_bytes(folder / "b.png");
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    write_bytes(folder / "cut.png", whole.substr(0, bytes));
    EXPECT_THROW((void)read_stored_pixels(folder / "cut.png"), InputError) << bytes;
  }
}

}  // namespace
}  // namespace saccade
