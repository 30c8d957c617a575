// One annotation file of Pascal VOC (expat).
#pragma once

#include <array>
#include <string>
#include <vector>

namespace saccade {

struct VocObject {
  std::string name;
  std::array<double, 4> corners{};  // xmin, ymin, xmax, ymax in pixels
  bool is_difficult = false;        // neither asked for nor wrong, as VOC's evaluation has it
};

struct VocFile {
  std::string file_name;          // "" where the file does not say
  int64_t width = 0, height = 0;  // 0: not said
  std::vector<VocObject> objects;
  std::vector<std::string> problems;  // "path: line N: what"; their objects are left out
};

// Throws InputError where it is no XML or has a DOCTYPE.
VocFile read_voc_xml(const std::string& path);

}  // namespace saccade
