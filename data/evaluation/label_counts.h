// How often pixels of one class are taken for another, and the metrics that follow: those of mmsegmentation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

class LabelCounts {
 public:
  static constexpr int64_t kMaxClasses = 4096;

  // Throws InputError for more classes.
  explicit LabelCounts(int64_t classes);

  // Labels of pixels; where the true one is LabelMap::kIgnored nothing counts.
  void add(std::span<const uint16_t> found, std::span<const uint16_t> truth);
  // What was added, and again: bytes for another process. Two of these, one behind the other,
  // are one of both.
  std::string state() const;
  void merge(std::string_view state);

  int64_t classes() const { return classes_; }
  int64_t count(int64_t truth, int64_t found) const {
    return counts_[static_cast<size_t>(truth * classes_ + found)];
  }
  std::vector<std::vector<int64_t>> matrix() const;  // [true, found]

  struct OfClass {
    int64_t pixels = 0, found = 0, hits = 0;
    // Over the union of both; nothing where there is none. Over the true ones; nothing where there are none.
    std::optional<double> iou() const;
    std::optional<double> accuracy() const;
  };
  std::vector<OfClass> of_classes() const;

  struct Means {
    double iou = 0, accuracy = 0;     // over the classes that have one
    double pixel_accuracy = 0;        // of all pixels
    int64_t pixels = 0, classes = 0;  // with a class; of those that have an IoU
  };
  Means means() const;  // all 0 where no pixel has a class

 private:
  int64_t classes_;
  std::vector<int64_t> counts_;  // [true, found]
};

}  // namespace saccade
