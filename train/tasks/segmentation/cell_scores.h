// From the logits of a model's cells to the classes of an image's pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "core/types/label_map.h"

namespace saccade {

// Of one image, on the host.
struct CellScores {
  const float* logits = nullptr;  // [height, width, channels]
  int64_t height = 0, width = 0, channels = 0;
  int64_t classes = 0;           // the first of the channels
  double rows = 0, columns = 0;  // of the cells, this many cover the image; the others its padding
  bool is_mirrored = false;
};

// Bilinear between the cells' centres, then the best class; of equal ones the first.
LabelMap best_labels(const CellScores& scores, ImageSize size);

// The probabilities of an image's pixels, of several looks at it.
class PixelScores {
 public:
  PixelScores(ImageSize size, int64_t classes)
      : size_(size), classes_(classes), sums_(static_cast<size_t>(size.height * size.width * classes)) {}
  // Adds the softmax of a look at a part of it, which has its corner there.
  void add(const CellScores& scores, int64_t y, int64_t x, ImageSize part);
  // Divides each pixel's by their sum.
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
  // Adds, bilinearly resized, what another has of the same image in another size.
  void add_resized(const PixelScores& other);
  LabelMap best() const { return best_labels(scores(), size_); }
  // The mean of each class's probability over the pixels that it is the best class of.
  std::vector<double> confidence(const LabelMap& labels) const;

 private:
  ImageSize size_;
  int64_t classes_;
  std::vector<float> sums_;  // [height, width, classes]
};

}  // namespace saccade
