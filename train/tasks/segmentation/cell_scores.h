// Turns the logits of a model's cells into the classes of an image's pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "core/types/label_map.h"

namespace saccade {

// The logits of one image, on the host.
struct CellScores {
  const float* logits = nullptr;  // [height, width, channels]
  int64_t height = 0, width = 0, channels = 0;
  int64_t classes = 0;           // the classes are the first of the channels
  double rows = 0, columns = 0;  // how many of the cells cover the image; the others cover its padding
  bool is_mirrored = false;
};

// Interpolates bilinearly between the cells' centres, then takes the best class; the first of equal ones.
LabelMap best_labels(const CellScores& scores, ImageSize size);

// The class probabilities of an image's pixels, summed over several views of it.
class PixelScores {
 public:
  PixelScores(ImageSize size, int64_t classes)
      : size_(size), classes_(classes), sums_(static_cast<size_t>(size.height * size.width * classes)) {}
  // Adds the softmax of a view of a part of the image whose corner is at (y, x).
  void add(const CellScores& scores, int64_t y, int64_t x, ImageSize part);
  // Divides the values of each pixel by their sum.
  void normalize();
  CellScores scores() const {
    return {sums_.data(),
            size_.height,
            size_.width,
            classes_,
            classes_,
            static_cast<double>(size_.height),
            static_cast<double>(size_.width)};
  }
  // Adds the bilinearly resized values of the same image at another size.
  void add_resized(const PixelScores& other);
  LabelMap best() const { return best_labels(scores(), size_); }
  // Returns for each class the mean of its probability over the pixels whose best class it is.
  std::vector<double> confidence(const LabelMap& labels) const;

 private:
  ImageSize size_;
  int64_t classes_;
  std::vector<float> sums_;  // [height, width, classes]
};

}  // namespace saccade
