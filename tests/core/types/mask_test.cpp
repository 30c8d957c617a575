// Tests masks against pycocotools and Pillow on random cases in tests/golden/masks
// (scripts/golden/data/make_masks.py). All numbers are equal to the bit, all texts to the byte.
#include "core/types/mask.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <sstream>

#include "core/tensor/philox.h"
#include "tests/input_error.h"

namespace saccade {
namespace {

using Polygons = std::vector<std::vector<double>>;
using Counts = std::vector<int64_t>;

template <class T>
std::vector<T> read_list(std::istream& in, size_t size) {
  std::vector<T> list(size);
  for (T& v : list) in >> v;
  return list;
}

// Reads a `count` and then as many numbers.
template <class T>
std::vector<T> read_list(std::istream& in) {
  size_t size = 0;
  in >> size;
  return read_list<T>(in, size);
}

std::istream& operator>>(std::istream& in, ImageSize& size) { return in >> size.height >> size.width; }

Mask read_mask(const std::string& kind, ImageSize size, std::istream& in) {
  if (kind == "counts") return Mask::from_counts(size, read_list<int64_t>(in));
  if (kind == "box") {
    const std::vector<double> b = read_list<double>(in, 4);
    return Mask::from_box(size, {b[0], b[1], b[0] + b[2], b[1] + b[3]});
  }
  size_t count = 0;
  in >> count;
  Polygons polygons;
  while (count-- > 0) polygons.push_back(read_list<double>(in));
  return Mask::from_polygons(size, polygons);
}

// Expects the properties of a mask that follow from its pixels alone.
void expect_consistent(const Mask& mask) {
  const ImageSize size = mask.size();
  const std::vector<uint8_t> pixels = mask.bitmap();
  EXPECT_EQ(Mask::from_bitmap(size, pixels), mask);
  EXPECT_EQ(Mask::from_text(size, mask.text()), mask);
  const std::vector<uint32_t> counts = mask.counts();
  EXPECT_EQ(Mask::from_counts(size, Counts(counts.begin(), counts.end())), mask);
  std::vector<uint8_t> by_counts;
  for (size_t i = 0; i < counts.size(); ++i) by_counts.insert(by_counts.end(), counts[i], i % 2);
  ASSERT_EQ(by_counts.size(), pixels.size());
  for (int64_t i = 0; i < size.height * size.width; ++i)
    ASSERT_EQ(by_counts[static_cast<size_t>(i)],
              pixels[static_cast<size_t>(i % size.height * size.width + i / size.height)]);
}

TEST(Mask, EqualsPycocotoolsAndPillow) {
  std::ifstream file(SACCADE_SOURCE_DIR "/tests/golden/masks/cases.txt");
  std::vector<Mask> masks;
  std::map<std::string, int> compared;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    SCOPED_TRACE(line);
    std::istringstream in(line);
    std::string kind, equals;
    in >> kind;
    auto read = [&] {
      size_t number = 0;
      in >> number;
      return masks.at(number);
    };
    auto text_of = [&](const Mask& mask) {
      std::string text;
      in >> equals >> text;
      EXPECT_EQ(mask.text(), text);
      expect_consistent(mask);
    };
    if (kind == "iou") {
      const Mask detection = read(), object = read();
      bool crowd = false;
      double value = 0;
      in >> crowd >> equals >> value;
      EXPECT_EQ(iou(detection, object, crowd), value);
      EXPECT_EQ(intersection(detection, object), (detection & object).area());
    } else if (kind == "or" || kind == "and") {
      const Mask a = read(), b = read();
      text_of(kind == "or" ? a | b : a & b);
    } else if (kind == "flip") {
      text_of(read().flip_horizontal());
    } else if (kind == "crop") {
      const Mask mask = read();
      int64_t y = 0, x = 0;
      ImageSize window;
      in >> y >> x >> window;
      text_of(mask.crop(y, x, window));
    } else if (kind == "resize") {
      const Mask mask = read();
      ImageSize size;
      in >> size;
      text_of(mask.resize(size));
    } else {
      ImageSize size;
      in >> size;
      const Mask mask = masks.emplace_back(read_mask(kind, size, in));
      in >> equals;
      EXPECT_EQ(mask.area(), read_list<int64_t>(in, 1)[0]);
      const std::vector<double> b = read_list<double>(in, 4);
      EXPECT_EQ(mask.box(), (Box{b[0], b[1], b[0] + b[2], b[1] + b[3]}));
      std::string text;
      in >> text;
      EXPECT_EQ(mask.text(), text);
      expect_consistent(mask);
    }
    EXPECT_TRUE(in && (in >> std::ws).eof());
    ++compared[kind];
  }
  for (const char* kind : {"polygons", "box", "counts"}) EXPECT_GT(compared[kind], 30) << kind;
  for (const char* kind : {"iou", "or", "and", "flip", "crop", "resize"})
    EXPECT_GT(compared[kind], 150) << kind;
}

// The masks have holes, parts that touch at corners, and full columns.
TEST(Mask, PolygonsAreTheMaskToThePixel) {
  Rng rng(3);
  for (int trial = 0; trial < 200; ++trial) {
    const ImageSize size{1 + rng.below(9), 1 + rng.below(9)};
    std::vector<uint8_t> pixels(static_cast<size_t>(size.height * size.width));
    const auto of_ten = rng.below(11);
    for (uint8_t& pixel : pixels) pixel = rng.below(10) < of_ten;
    const Mask mask = Mask::from_bitmap(size, pixels);
    EXPECT_EQ(Mask::from_polygons(size, mask.polygons()), mask) << "trial " << trial;
  }
  EXPECT_EQ(Mask::from_box({9, 9}, {2, 3, 5, 7}).polygons(), (Polygons{{2, 3, 5, 3, 5, 7, 2, 7}}));
  EXPECT_TRUE(Mask::from_counts({3, 3}, Counts{9}).polygons().empty());
}

TEST(Mask, RunsOfNoPixelsSayNothing) {
  const Mask mask = Mask::from_counts({4, 3}, Counts{2, 4, 0, 3, 3, 0, 0});
  EXPECT_EQ(mask.runs(), (std::vector<Mask::Run>{{2, 9}}));
  EXPECT_EQ(mask, Mask::from_text({4, 3}, "240O3MM"));  // as pycocotools writes these counts
  EXPECT_EQ(mask.counts(), (std::vector<uint32_t>{2, 7, 3}));
}

TEST(Mask, NothingSet) {
  const Mask none = Mask::from_polygons({4, 3}, {}), outside = Mask::from_box({4, 3}, {7, 0, 9, 4});
  EXPECT_EQ(none, outside);
  EXPECT_EQ(none.text(), "<");
  EXPECT_EQ(none.area(), 0);
  EXPECT_EQ(none.box(), Box());
  EXPECT_EQ(iou(none, none), 0);
  EXPECT_EQ(iou(none, none, true), 0);
  EXPECT_EQ(none.flip_horizontal().resize({2, 2}).crop(-1, -1, {9, 9}).area(), 0);
  EXPECT_EQ(Mask().counts(), std::vector<uint32_t>());
  EXPECT_EQ(iou(Mask(), Mask()), 0);
  EXPECT_THROW(iou(none, Mask()), Error);
  EXPECT_THROW(none | Mask(), Error);
  EXPECT_THROW(none & Mask(), Error);
}

TEST(Mask, OutlinesThatLieOnEachOtherTakeBoundedMemory) {
  // There are more than a million crossings and runs, after which they are merged.
  const std::vector<double> triangle{10, 3, 2000, 11, 300, 29};
  const Mask mask = Mask::from_polygons({30, 2000}, {{triangle}});
  expect_consistent(mask);
  std::vector<double> often;
  for (int i = 0; i < 501; ++i) often.insert(often.end(), triangle.begin(), triangle.end());
  EXPECT_EQ(Mask::from_polygons({30, 2000}, {{often}}), mask);
  Polygons many(1001, triangle);
  many.front() = {0, 20, 8, 20, 8, 30};  // of the first million
  EXPECT_EQ(Mask::from_polygons({30, 2000}, many), mask | Mask::from_polygons({30, 2000}, {{many.front()}}));
}

TEST(Mask, HostileInput) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const int64_t most = std::numeric_limits<int64_t>::max();
  auto counts = [](ImageSize size, Counts values) {
    return std::function([=] { return Mask::from_counts(size, values); });
  };
  auto text = [](std::string value) { return std::function([=] { return Mask::from_text({4, 3}, value); }); };
  auto polygons = [](Polygons values) {
    return std::function([=] { return Mask::from_polygons({4, 3}, values); });
  };
  auto box = [](Box value) { return std::function([=] { return Mask::from_box({4, 3}, value); }); };
  const std::string no_size = "pixels, expected 1 to 178956970 in total";
  const std::string few = "coordinates, expected an even number, at least 6";
  const std::pair<std::function<Mask()>, std::string> rows[] = {
      {counts({4, 3}, {}), "mask: its counts add up to 0, expected 12 (3 x 4 pixels)"},
      {counts({4, 3}, {5, 6}), "mask: its counts add up to 11, expected 12 (3 x 4 pixels)"},
      {counts({4, 3}, {5, 6, 2}), "mask: its counts add up to more than its 3 x 4 pixels"},
      {counts({4, 3}, {13}), "mask: its counts add up to more than its 3 x 4 pixels"},
      {counts({4, 3}, {5, most, most}), "mask: its counts add up to more than its 3 x 4 pixels"},
      {counts({4, 3}, {5, -1, 8}), "mask: count 2 is -1, expected 0 or more"},
      {counts({4, 3}, {12, -most - 1}), "mask: count 2 is -9223372036854775808, expected 0 or more"},
      {counts({0, 3}, {}), "mask: 3 x 0 " + no_size},
      {counts({4, -3}, {12}), "mask: -3 x 4 " + no_size},
      {counts({most, most}, {1}), "mask: 9223372036854775807 x 9223372036854775807 " + no_size},
      {counts({65536, 65536}, {int64_t{1} << 32}), "mask: 65536 x 65536 " + no_size},
      {text(""), "mask: its counts add up to 0, expected 12 (3 x 4 pixels)"},
      {text("56"), "mask: its counts add up to 11, expected 12 (3 x 4 pixels)"},
      {text("5O8"), "mask: count 2 is -1, expected 0 or more"},
      {text("5 7"), "mask: byte 2 of its text is 0x20, expected '0' to 'o'"},
      {text("5p7"), "mask: byte 2 of its text is 0x70, expected '0' to 'o'"},
      {text({'5', '\0', '7'}), "mask: byte 2 of its text is 0x00, expected '0' to 'o'"},
      {text("\xff\n"), "mask: byte 1 of its text is 0xff, expected '0' to 'o'"},
      {text("5P"), "mask: its text ends within a number"},
      {text("5oooooooooooooooooo"), "mask: byte 9 of its text makes a number too large"},
      {text("ooooooo?"), "mask: byte 8 of its text makes a number too large"},
      {text("oooooo?"), "mask: its counts add up to more than its 3 x 4 pixels"},
      {text("PPPPPP@"), "mask: count 1 is -17179869184, expected 0 or more"},
      {polygons({{}}), "mask: polygon 1 has 0 " + few},
      {polygons({{0, 0, 3, 0, 3, 3}, {1, 1, 2, 2}}), "mask: polygon 2 has 4 " + few},
      {polygons({{0, 0, 3, 0, 3, 3, 1}}), "mask: polygon 1 has 7 " + few},
      {polygons({{0, 0, 3, 0, 3, nan}}),
       "mask: polygon 1 has the coordinate nan, expected at most 1e+08 pixels"},
      {polygons({{0, 0, 3, -infinity, 3, 3}}),
       "mask: polygon 1 has the coordinate -inf, expected at most 1e+08 pixels"},
      {polygons({{0, 0, 3, 0, 3, 1.1e8}}),
       "mask: polygon 1 has the coordinate 110000000, expected at most 1e+08 pixels"},
      {polygons({{0, 0, 3, 0, 3, -1e300}}),
       "mask: polygon 1 has the coordinate -1e+300, expected at most 1e+08 pixels"},
      {box({0, 0, nan, 1}), "mask: its box has the coordinate nan, expected at most 1e+08 pixels"},
      {box({0, -1e9, 1, 1}), "mask: its box has the coordinate -1000000000, expected at most 1e+08 pixels"},
      {[] {
         return Mask::from_polygons({1 << 20, 1 << 20}, {});
       },
       "mask: 1048576 x 1048576 " + no_size},
      {[] {
         return Mask::from_bitmap({0, 0}, {});
       },
       "mask: 0 x 0 " + no_size},
      {[] {
         return Mask::from_box({4, 3}, {0, 0, 2, 2}).resize({kMaxImagePixels, 2});
       },
       "mask: 2 x 178956970 " + no_size},
      {[] {
         return Mask::from_box({4, 3}, {0, 0, 2, 2}).crop(0, 0, {4, 0});
       },
       "mask: 0 x 4 " + no_size},
  };
  for (const auto& [make, message] : rows) EXPECT_EQ(input_error(make), message);
  EXPECT_THROW(Mask::from_bitmap({4, 3}, std::vector<uint8_t>(11)), Error);
}

}  // namespace
}  // namespace saccade
