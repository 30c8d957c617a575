// The pixels of an image that belong to an object.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types/box.h"
#include "core/types/image_size.h"

namespace saccade {

// A mask in COCO's form (https://github.com/cocodataset/cocoapi): pixels are numbered column by column,
// each from top to bottom, and only the runs of set pixels are stored. All numbers and texts equal those
// of pycocotools 2.0, to the bit. The size is at least 1 x 1, except for that of Mask(), and at most
// kMaxImagePixels.
//
// Every function that takes a size throws InputError for a bad one. Its message, like those below, is one
// line that begins with "mask: "; the caller knows the object and its file and names them in front.
class Mask {
 public:
  // Set pixels in [begin, end). Runs are not empty, are in ascending order and do not touch each other.
  struct Run {
    uint32_t begin = 0, end = 0;
    bool operator==(const Run&) const = default;
  };

  Mask() = default;  // no pixels
  // The numbers of pixels not set, set, not set, and so on. A later zero merges its neighbours, which
  // pycocotools keeps apart. Throws InputError for a negative count and for a sum other than height * width.
  static Mask from_counts(ImageSize size, std::span<const int64_t> counts);
  // The same counts as written by text(). Throws InputError for other text.
  static Mask from_text(ImageSize size, std::string_view text);
  // The part of the image that is inside any of the polygons (x, y, x, y, ... in pixels), each by the
  // even-odd rule. Throws InputError for fewer than three points, an odd number of coordinates, and a
  // coordinate that is not finite or beyond +-1e8.
  static Mask from_polygons(ImageSize size, std::span<const std::vector<double>> polygons);
  static void check_polygons(std::span<const std::vector<double>> polygons);  // throws for the same polygons
  // The mask of the polygon with the box's corners. Throws InputError for the same coordinates.
  static Mask from_box(ImageSize size, const Box& box);
  // Runs in ascending order, which may touch each other. Throws Error for others.
  static Mask from_runs(ImageSize size, std::span<const Run> runs);
  // Pixels [height, width], row by row; all but 0 are set. Throws Error for another number of pixels.
  static Mask from_bitmap(ImageSize size, std::span<const uint8_t> pixels);

  ImageSize size() const { return size_; }
  const std::vector<Run>& runs() const { return runs_; }
  int64_t area() const { return area_; }   // set pixels
  const Box& box() const { return box_; }  // around the set pixels; all 0 if there are none
  bool operator==(const Mask&) const = default;

  std::vector<uint32_t> counts() const;
  std::string text() const;             // "counts" of COCO's compressed form: ASCII from '0' to 'o'
  std::vector<uint8_t> bitmap() const;  // [height, width], row by row, 0 or 1
  // Returns polygons along the sides of pixels, none of which has a hole or touches the inside of another.
  // Their union is exactly the mask.
  std::vector<std::vector<double>> polygons() const;

  // Returns the window whose top left corner is at (y, x). No pixels are set beyond the mask: a window at
  // (-y, -x) moves the mask onto a larger canvas.
  Mask crop(int64_t y, int64_t x, ImageSize window) const;
  Mask flip_horizontal() const;
  // Pixel i of n new ones along a side is pixel floor((i + 0.5) * before / n), exactly as in Pillow's NEAREST
  // and OpenCV's INTER_NEAREST_EXACT. The nearest modes of torch and torchvision and OpenCV's INTER_NEAREST
  // omit the 0.5.
  Mask resize(ImageSize size) const;

  // These throw Error for masks of different sizes.
  friend Mask operator|(const Mask& a, const Mask& b);
  friend Mask operator&(const Mask& a, const Mask& b);
  friend int64_t intersection(const Mask& a, const Mask& b);  // pixels that are set in both

 private:
  Mask(ImageSize size, std::vector<Run> runs);
  static int64_t pixels_of(ImageSize size);  // throws as described above
  // Adds a run that may be empty and may touch or overlap the last one, but does not begin before it.
  static void append(std::vector<Run>& runs, int64_t begin, int64_t end);
  // Calls f(x, top, bottom) for every part of a run within one column, in order.
  template <class F>
  void for_each_part(F f) const;

  ImageSize size_;
  std::vector<Run> runs_;
  int64_t area_ = 0;
  Box box_;
};

template <class F>
void Mask::for_each_part(F f) const {
  const auto height = static_cast<uint32_t>(size_.height);
  for (const Run& run : runs_)
    for (uint32_t at = run.begin; at < run.end;) {
      const uint32_t x = at / height, end = std::min(run.end, (x + 1) * height);
      f(x, at - x * height, end - x * height);
      at = end;
    }
}

// Intersection over union, from 0 to 1; if the object is a crowd, intersection over the detection's area.
// Throws Error for masks of different sizes.
double iou(const Mask& detection, const Mask& object, bool crowd = false);

}  // namespace saccade
