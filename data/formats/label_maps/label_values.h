// The meaning of the numbers in the label maps of a data set, and the reading of a map.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/types/label_map.h"
#include "data/formats/ground_truth.h"
#include "data/images/stored_pixels.h"

namespace saccade {

struct DataPaths;

struct LabelValues {
  // The category of each value; a value that is neither here nor ignored has no meaning.
  std::unordered_map<uint32_t, int64_t> categories;
  std::vector<uint32_t> ignored;  // values without a class
  bool are_colors = false;        // the values are colours, 0xRRGGBB, instead of numbers
};

// The value of each pixel and the number of occurrences of each value. Throws InputError naming the file, for
// example if numbers are expected but the image only has colours.
struct CountedValues {
  ImageSize size;
  std::vector<uint32_t> values;  // [height, width]
  std::map<uint32_t, int64_t> counts;
};
CountedValues read_label_values(const std::string& path, bool are_colors);
// Returns "7" or "#80c040".
std::string value_text(uint32_t value, bool is_color);
// Returns "FILE: 312 pixels have the value 77, which is neither a class of the list nor ignored" for values
// without meaning; "" if there are none.
std::string unknown_values(const std::string& path, const std::map<uint32_t, int64_t>& counts,
                           const LabelValues& values);

// label_of: the model's label of a category. Throws InputError naming the file for another size and for
// values without meaning.
LabelMap read_label_map(const std::string& path, ImageSize size, const LabelValues& values,
                        const std::function<int64_t(int64_t category)>& label_of);

// Prepares drawing label maps from the objects' masks: adds the class of their background if wanted. Reports
// sets in which no object has a mask; if only some lack one, a note counts them.
void draw_labels(GroundTruth& truth, const DataPaths& paths, const ProblemReport& report);
// Keeps and renames categories; pixels of other categories have no class.
void remap_labels(GroundTruth& truth, const std::unordered_map<int64_t, int64_t>& kept);

// Draws the objects' masks on the label of the background (LabelMap::kIgnored: none), large ones first.
// Pixels in the box of an object without a mask, and in no mask, are ignored. Throws InputError as
// Segmentation::mask does, with `where(annotation)` in front.
LabelMap draw_label_map(std::span<const Annotation> annotations, ImageSize size, uint16_t background,
                        const std::function<int64_t(int64_t category)>& label_of,
                        const std::function<std::string(const Annotation&)>& where);

}  // namespace saccade
