// What the metrics of detections are of, where pycocotools has parameters: iouType, maxDets,
// areaRng and areaRngLbl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

inline constexpr int64_t kCocoDetections = 100;  // the best of an image and category that count
inline constexpr double kLargestArea = 1e10;     // pycocotools' end of "all" and "large"

// Objects of an area from `low` to `high` in pixels, both included, of which metrics are given apart.
struct AreaRange {
  std::string name;
  double low = 0, high = kLargestArea;
  bool operator==(const AreaRange&) const = default;
};
std::vector<AreaRange> coco_areas();  // small, medium and large

// "small:0-1024,large:1024-": an end that is left out is kLargestArea.
// Throws InputError that says what is wrong with it.
std::vector<AreaRange> parse_area_ranges(std::string_view text);

// What of a detection and an object must overlap. kBoth is for evaluators, whose metrics are those of boxes
// and, with kOfMasks before their names, those of masks.
enum class IouType { kBoxes, kMasks, kBoth };
inline constexpr const char* kOfMasks = "segm_";

struct MetricOptions {
  std::optional<IouType> iou;  // else kBoxes; what judges a model that predicts masks takes kBoth then
  std::optional<int64_t> max_detections;  // of an image and category, more than 10; else kCocoDetections
  std::vector<AreaRange> areas = coco_areas();  // besides all sizes
  bool operator==(const MetricOptions&) const = default;
};

}  // namespace saccade
