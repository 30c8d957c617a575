// The options of detection metrics that correspond to pycocotools' parameters iouType, maxDets,
// areaRng and areaRngLbl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

inline constexpr int64_t kCocoDetections = 100;  // best detections that count per image and category
inline constexpr double kLargestArea = 1e10;     // pycocotools' upper bound of "all" and "large"

// An area range from `low` to `high` in pixels, both included, with its own metrics.
struct AreaRange {
  std::string name;
  double low = 0, high = kLargestArea;
  bool operator==(const AreaRange&) const = default;
};
std::vector<AreaRange> coco_areas();  // small, medium and large

// Parses "small:0-1024,large:1024-"; an omitted end is kLargestArea.
// Throws InputError that says what is wrong with it.
std::vector<AreaRange> parse_area_ranges(std::string_view text);

// What parts of a detection and an object must overlap. kBoth is for evaluators; their metrics are those of
// boxes and, with kOfMasks before their names, those of masks.
enum class IouType { kBoxes, kMasks, kBoth };
inline constexpr const char* kOfMasks = "segm_";

struct MetricOptions {
  std::optional<IouType> iou;  // default: kBoxes, or kBoth for evaluating a model that predicts masks
  std::optional<int64_t> max_detections;  // per image and category, more than 10; default: kCocoDetections
  std::vector<AreaRange> areas = coco_areas();  // in addition to all sizes
  bool operator==(const MetricOptions&) const = default;
  std::string given_flags() const;  // "--iou, --area-ranges"; "" if all have their defaults
};

}  // namespace saccade
