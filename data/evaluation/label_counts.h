// Counts how often pixels of one class are taken for another, and computes mmsegmentation's metrics from it.
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

  // Adds the labels of pixels; pixels whose true label is LabelMap::kIgnored do not count.
  void add(std::span<const uint16_t> found, std::span<const uint16_t> truth);
  // Serialises what was added for another process, which adds it with merge(). The concatenation
  // of two states stands for both.
  std::string state() const;
  void merge(std::string_view state);

  int64_t classes() const { return classes_; }
  int64_t count(int64_t truth, int64_t found) const {
    return counts_[static_cast<size_t>(truth * classes_ + found)];
  }
  std::vector<std::vector<int64_t>> matrix() const;  // [true, found]

  struct OfClass {
    int64_t pixels = 0, found = 0, hits = 0;
    // Relative to the union of both, and to the true pixels; nothing if there are none.
    std::optional<double> iou() const;
    std::optional<double> accuracy() const;
  };
  std::vector<OfClass> of_classes() const;

  struct Means {
    double iou = 0, accuracy = 0;     // over the classes that have one
    double pixel_accuracy = 0;        // over all pixels
    int64_t pixels = 0, classes = 0;  // pixels with a class; classes that have an IoU
  };
  Means means() const;  // all 0 if no pixel has a class

 private:
  int64_t classes_;
  std::vector<int64_t> counts_;  // [true, found]
};

}  // namespace saccade
