#include "data/formats/yolo/yolo_labels.h"

#include <algorithm>
#include <cmath>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"

namespace saccade {
namespace {

constexpr FileKind kLabelFile{"a file of YOLO labels", uint64_t{64} << 20};
constexpr size_t kBoxWords = 5, kOrientedWords = 9;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// Returns whether the values are a box and points of `numbers` numbers that are in it.
bool are_points(const std::vector<double>& values, size_t numbers) {
  if ((values.size() - 4) % numbers != 0) return false;
  for (size_t i = 4; i < values.size(); i += numbers) {
    const double x = values[i], y = values[i + 1];
    if (numbers == 3 && values[i + 2] != 0 && values[i + 2] != 1 && values[i + 2] != 2) return false;
    if (x == 0 && y == 0) continue;  // a missing point
    if (std::abs(x - values[0]) > values[2] / 2 + 0.01 || std::abs(y - values[1]) > values[3] / 2 + 0.01)
      return false;
  }
  return true;
}

class LineReader {
 public:
  LineReader(const YoloYaml& set, ImageSize size, bool masks, YoloLabels& out)
      : set_(set), size_(size), masks_(masks), out_(out) {}

  // Returns an error text about the line; "" if the object is appended.
  std::string read(const TextLine& line) {
    const std::vector<std::string_view> words = words_of(line.text);
    if (words.empty()) return "";
    const size_t pose_words =
        set_.key_points == 0 ? 0 : kBoxWords + static_cast<size_t>(set_.key_points * set_.key_point_numbers);
    const bool is_polygon = pose_words == 0 && words.size() >= 7 && words.size() % 2 == 1;
    if (pose_words > 0 && words.size() != kBoxWords && words.size() != pose_words)
      return fmt::format(
          "expected a class, a box of 4 numbers and {} key points of {} numbers (kpt_shape); found {}",
          set_.key_points, set_.key_point_numbers, count_of(std::ssize(words), "word", "words"));
    if (pose_words == 0 && words.size() != kBoxWords && !is_polygon)
      return fmt::format("expected a class and 4 numbers, or the corners of a polygon; found {}",
                         count_of(std::ssize(words), "word", "words"));
    const auto classes = static_cast<int64_t>(set_.names.size());
    const auto label = finite_number(words[0]);
    if (!label || *label < 0 || *label >= static_cast<double>(classes) || *label != std::floor(*label))
      return fmt::format("expected a class from 0 to {}, found \"{}\"", classes - 1, words[0].substr(0, 40));
    std::vector<double> values;
    for (size_t i = 1; i < words.size(); ++i) {
      const auto value = finite_number(words[i]);
      const bool is_key_point = !is_polygon && i >= kBoxWords;
      if (!value || (!is_key_point && (*value < -1 || *value > 2)))
        return fmt::format(
            "expected {}, found \"{}\"",
            is_key_point ? "a number" : "a fraction of the image from -1 to 2 (0 to 1 is inside)",
            words[i].substr(0, 40));
      values.push_back(*value);
    }
    count(values, is_polygon);
    add_object(set_.names[static_cast<size_t>(*label)], values, is_polygon, line.number);
    return "";
  }

 private:
  void count(const std::vector<double>& values, bool is_polygon) {
    LabelKinds one{.lines = 1, .polygons = is_polygon ? 1 : 0, .words = is_polygon ? values.size() + 1 : 0};
    if (is_polygon)
      for (size_t k = 0; k < 2; ++k) one.has_points[k] = are_points(values, k + 2);
    out_.kinds.add(one);
  }

  void add_object(const std::string& name, const std::vector<double>& values, bool is_polygon, int64_t line) {
    double x1 = 2, y1 = 2, x2 = -1, y2 = -1;
    if (is_polygon) {
      for (size_t i = 0; i < values.size(); i += 2) {
        x1 = std::min(x1, values[i]), x2 = std::max(x2, values[i]);
        y1 = std::min(y1, values[i + 1]), y2 = std::max(y2, values[i + 1]);
      }
    } else {
      x1 = values[0] - values[2] / 2, x2 = values[0] + values[2] / 2;
      y1 = values[1] - values[3] / 2, y2 = values[1] + values[3] / 2;
    }
    const auto width = static_cast<double>(size_.width), height = static_cast<double>(size_.height);
    if (width == 0) return;  // the image is unreadable, which the code that inspects the images reports
    out_.objects.push_back({.name = name,
                            .box = {round_pixels(x1 * width), round_pixels(y1 * height),
                                    round_pixels(x2 * width), round_pixels(y2 * height)},
                            .number = line});
    if (!is_polygon || !masks_) return;
    std::vector<double> points;
    for (size_t i = 0; i < values.size(); ++i)
      points.push_back(round_pixels(values[i] * (i % 2 == 0 ? width : height)));
    out_.objects.back().segmentation = polygon_mask(std::move(points));
  }

  const YoloYaml& set_;
  ImageSize size_;
  bool masks_;
  YoloLabels& out_;
};

}  // namespace

void LabelKinds::add(const LabelKinds& other) {
  if (other.polygons > 0) {
    is_even = is_even && other.is_even && (polygons == 0 || words == other.words);
    words = other.words;
    for (size_t k = 0; k < 2; ++k) has_points[k] = has_points[k] && other.has_points[k];
  }
  lines += other.lines;
  polygons += other.polygons;
}

std::string LabelKinds::note() const {
  if (polygons == 0) return "";
  // The corners of a polygon may be anywhere; that all of many polygons fit such a box by chance is very
  // unlikely.
  for (size_t k : {size_t{1}, size_t{0}})
    if (is_even && polygons >= 3 && has_points[k])
      return fmt::format(
          "{} lines of labels have {} words and look like key points, but are read as polygons; \"kpt_shape: [{}, {}]\" in "
          "data.yaml says that the first four numbers are the box",
          polygons, words, (words - kBoxWords) / (k + 2), k + 2);
  const bool are_turned = is_even && words == kOrientedWords;
  return count_among(polygons, lines, "lines of labels", are_turned ? "is an oriented box" : "is a polygon",
                     are_turned ? "are oriented boxes" : "are polygons") +
         "; the upright box around each is used";
}

YoloLabels read_yolo_labels(const std::string& path, const YoloYaml& set, ImageSize size, bool masks,
                            std::vector<std::string>& problems) {
  YoloLabels out;
  try {
    LineReader reader(set, size, masks, out);
    for (const TextLine& line : text_lines(read_text(path, kLabelFile)))
      if (const std::string problem = reader.read(line); !problem.empty())
        problems.push_back(fmt::format("{}: line {}: {}", path, line.number, problem));
  } catch (const InputError& e) {
    problems.emplace_back(e.what());
  }
  return out;
}

}  // namespace saccade
