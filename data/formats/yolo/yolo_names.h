// The data.yaml of a YOLO data set (libyaml).
#pragma once

#include <map>
#include <string>
#include <vector>

namespace saccade {

struct YoloYaml {
  std::vector<std::string> names;
  std::map<std::string, std::string> folders;  // "train", "val", "test": as written; those that are there
  std::string path;                            // that they are relative to, as written
};

// Throws InputError naming the file and, where it is no YAML, the line.
YoloYaml read_yolo_yaml(const std::string& path);

}  // namespace saccade
