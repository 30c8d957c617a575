// COCO result lists: [{"image_id", "category_id", "bbox": [x, y, width, height], "segmentation", "score"},
// ...]
// (https://cocodataset.org/#format-results).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types/mask.h"
#include "data/formats/ground_truth.h"
#include "data/formats/joining/class_choice.h"

namespace saccade {

struct Detection {
  int64_t image_id = 0, category_id = 0;
  // x, y, width, height in pixels of the original image. Not a Box, whose corners would round them anew:
  // lists are written as they were read, and overlaps equal pycocotools' to the bit.
  std::array<double, 4> bbox{};
  double score = 0;
  std::shared_ptr<const Mask> mask = {};  // of its image's size; null: none, or not requested
  // Its area is that of the mask even if boxes are compared, as in pycocotools for lists without boxes.
  bool has_mask_area = false;
};

// Reads a result list in file order, or the annotations of a COCO dictionary that have scores. Throws
// InputError naming the file and the entry ("d.json: entry 3: ...", counted from 1) if the file is missing or
// broken, or an entry lacks a field or contains NaN, an infinity or another type.
// If `truth` is given, names take precedence over numbers, since many programs write list positions as
// numbers. `file_name` (or an image_id that is a text) is the image of that name, or the only one whose path
// ends in it, or that has this name except for its extension; `category` is the category of that name, if the
// truth has any of the names in the file. A dictionary has the names of both in its own lists. Numbers count
// if names are not found. Classes that `choice`, with which the truth was read, maps to others become these.
// Differences are reported in `notes`.
// `masks`: whether segmentations are read; polygons need the truth, whose images have sizes. If an entry has
// no bbox, the list is read with segmentations, and the box is that of the mask.
std::vector<Detection> read_detections(const std::string& path, const GroundTruth* truth = nullptr,
                                       std::vector<std::string>* notes = nullptr, bool masks = false,
                                       const ClassChoice& choice = {});
// Writes masks as COCO's compressed run lengths, and every number so that it reads back as the same double,
// to a temporary file that is then renamed. If `truth` is given, each entry also names its image's file and
// its category, and has the image's id as in its list. Throws InputError if the file cannot be written.
void write_detections(const std::string& path, std::span<const Detection> detections,
                      const GroundTruth* truth = nullptr);

// Keeps only the categories with these names, their boxes and their detections; all images stay, as with
// pycocotools' catIds. Returns one line for each thing that was left out, without the file's name. The truth
// has these names (check_choice). Does nothing if there are no names.
std::vector<std::string> keep_classes(const std::vector<std::string>& names, GroundTruth& truth,
                                      std::vector<Detection>& detections);

// Serialises detections for processes of the same program that train together.
// Every number keeps its bits, masks keep their runs. The concatenation of two results
// stands for both lists.
std::string to_bytes(std::span<const Detection> detections);
std::vector<Detection> detections_of(std::string_view bytes);

}  // namespace saccade
