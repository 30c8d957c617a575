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
  // x, y, width, height in pixels of the original image. No Box, whose corners would round them anew: lists
  // are written as they were read, and overlaps are pycocotools' to the bit.
  std::array<double, 4> bbox{};
  double score = 0;
  std::shared_ptr<const Mask> mask = {};  // of the size of its image; null: none, or not asked for
  // Its area is the mask's where boxes are compared, too. So pycocotools has it of lists without boxes.
  bool has_mask_area = false;
};

// Reads a result list in file order, or the annotations of a COCO dictionary that have scores. Throws
// InputError naming the file and the entry ("d.json: entry 3: ...", counted from 1) when the file is missing
// or broken, or an entry lacks a field or holds NaN, an infinity or another type.
// Where `truth` is given, names count more than numbers, which are places in a list for many programs:
// `file_name` (or an image_id that is a text) is the image of that name, or the only one whose path ends in
// it, or that is called so but for its extension; `category` is the category of that name, where the truth
// has any of the names in the file. A dictionary names both in lists of its own. Numbers count where names
// are not found. Classes that `choice`, by which the truth was read, takes for others are these. What was
// made of differences is told in `notes`.
// `masks`: whether segmentations are read; polygons need the truth, whose images have sizes. A list of which
// an entry has no bbox is read with them, and the box is that of the mask.
std::vector<Detection> read_detections(const std::string& path, const GroundTruth* truth = nullptr,
                                       std::vector<std::string>* notes = nullptr, bool masks = false,
                                       const ClassChoice& choice = {});
// Writes masks as COCO's compressed run lengths, and every number so that it reads back as the same double,
// to a temporary file that is then renamed. Where `truth` is given, each entry also names its image's file
// and its category, and has the image's id as its list has it. Throws InputError when the file cannot be
// written.
void write_detections(const std::string& path, std::span<const Detection> detections,
                      const GroundTruth* truth = nullptr);

// Leaves the categories of these names, their boxes and the detections of them; all images stay, as with
// pycocotools' catIds. Returns what was left out, a line each, without the file's name. The truth has these
// names (check_choice). Does nothing where there are none.
std::vector<std::string> keep_classes(const std::vector<std::string>& names, GroundTruth& truth,
                                      std::vector<Detection>& detections);

// Detections as bytes, for processes of the same program that train together.
// Every number comes back with its bits, masks with their runs. What two calls give, one behind the other,
// is both lists.
std::string to_bytes(std::span<const Detection> detections);
std::vector<Detection> detections_of(std::string_view bytes);

}  // namespace saccade
