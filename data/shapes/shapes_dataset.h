// A synthetic COCO-format detection set for trying everything without a download: six kinds of shapes,
// rotated, overlapping, in random colours and fillings on textured, noisy backgrounds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/types/label_map.h"
#include "data/formats/ground_truth.h"
#include "data/images/image.h"

namespace saccade {

inline constexpr int64_t kMinShapesSide = 32, kMaxShapesSide = 4096;

struct ShapesOptions {
  int64_t images = 0;
  uint64_t seed = 0;
  int64_t min_side = 128, max_side = 192;      // width and height are drawn independently, pixels
  int threads = 0;                             // 0: as many as the machine has; the files do not depend on it
  std::function<void(int64_t done)> progress;  // called from any thread; may be empty
};

struct ShapesImage {
  Image image;
  // Category ids 1 .. 6. bbox is the extent of the visible pixels (not hidden by later shapes, inside the
  // image), area is their count and segmentation their outlines. A shape of which less than a quarter is
  // visible has no annotation.
  std::vector<Annotation> annotations;  // ids not yet given
  // 0 for the background, else the category of the topmost shape, even of one without an annotation.
  LabelMap label_map;
};

// "circle", "square", "triangle", "star", "ring", "cross"; category id = index + 1.
const std::vector<std::string>& shape_names();
// Draws image `index` (from 0): 1 to 8 shapes, each 8 % to 60 % of the image's shorter side across.
ShapesImage draw_shapes_image(const ShapesOptions& options, int64_t index);
// Writes folder/annotations.json, folder/images/000001.png ..., the label map of each in folder/label_maps
// and its classes.txt, under temporary names until all is done. Throws InputError if an option is out of
// range, the folder already contains one of these, or cannot be written.
void write_shapes_dataset(const std::string& folder, const ShapesOptions& options);

}  // namespace saccade
