// What the numbers in the label maps of a data set mean, and how a map is read by it.
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
  // The category of a value; a value of none of these and not ignored means nothing.
  std::unordered_map<uint32_t, int64_t> categories;
  std::vector<uint32_t> ignored;  // values of no class
  bool are_colors = false;        // the values are colours, 0xRRGGBB, and not numbers
};

// The value of each pixel, and how often each is there. Throws InputError naming the file, as where numbers
// are meant and the image has colours alone.
struct CountedValues {
  ImageSize size;
  std::vector<uint32_t> values;  // [height, width]
  std::map<uint32_t, int64_t> counts;
};
CountedValues read_label_values(const std::string& path, bool are_colors);
// "7", or "#80c040".
std::string value_text(uint32_t value, bool is_color);
// "FILE: 312 pixels have the value 77, which is no class and not ignored" for the values that mean nothing;
// "": all mean something.
std::string unknown_values(const std::string& path, const std::map<uint32_t, int64_t>& counts,
                           const LabelValues& values);

// label_of: what the model calls a category. Throws InputError naming the file for another size and for
// values that mean nothing.
LabelMap read_label_map(const std::string& path, ImageSize size, const LabelValues& values,
                        const std::function<int64_t(int64_t category)>& label_of);

// Label maps can be drawn of the objects' masks: adds the class of their background, where one is wanted.
// Reports sets in which no object has a mask; where some lack one, a note counts them.
void draw_labels(GroundTruth& truth, const DataPaths& paths, const ProblemReport& report);
// Of categories that stay, and as which; pixels of others are of no class.
void remap_labels(GroundTruth& truth, const std::unordered_map<int64_t, int64_t>& kept);

// The objects' masks on the label of the background (LabelMap::kIgnored: none), large ones first. What lies
// in the box of an object without a mask, and in no mask, is ignored. Throws
// InputError as Segmentation::mask does, with `where(annotation)` before it.
LabelMap draw_label_map(std::span<const Annotation> annotations, ImageSize size, uint16_t background,
                        const std::function<int64_t(int64_t category)>& label_of,
                        const std::function<std::string(const Annotation&)>& where);

}  // namespace saccade
