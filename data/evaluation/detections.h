// COCO result lists: [{"image_id", "category_id", "bbox": [x, y, width, height], "score"}, ...]
// (https://cocodataset.org/#format-results).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/formats/ground_truth.h"

namespace saccade {

struct Detection {
  int64_t image_id = 0, category_id = 0;
  std::array<double, 4> bbox{};  // x, y, width, height in pixels of the original image
  double score = 0;
};

// Reads a result list in file order. Throws InputError naming the file and the entry ("d.json: entry 3: ...",
// counted from 1) when the file is missing or broken, or an entry lacks a field or holds NaN, an infinity or
// another type.
// An entry may name its image by `file_name` in place of image_id, as predict writes it, where `truth` is given: then it is the image of
// that name, or the only one whose path ends in it.
std::vector<Detection> read_detections(const std::string& path, const GroundTruth* truth = nullptr);
// Writes every number so that it reads back as the same double, to a temporary file that is then renamed.
// Throws InputError when the file cannot be written.
void write_detections(const std::string& path, std::span<const Detection> detections);

}  // namespace saccade
