// Files that describe a YOLO data set: data.yaml (libyaml), Darknet's obj.data, or a list of classes.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace saccade {

// A folder of images or a list of them, as written, and its line.
struct YoloEntry {
  std::string text;
  int64_t line = 0;
};

struct YoloYaml {
  std::vector<std::string> names;
  std::map<std::string, std::vector<YoloEntry>> splits;  // the existing ones of "train", "val", "test"
  std::string path;                                      // folder that they are relative to, as written
  std::vector<std::string> notes = {};                   // on other things that it names, one line each
  int64_t key_points = 0, key_point_numbers = 0;  // kpt_shape of pose labels: 17 points of 2 or 3 numbers
};

bool is_yolo_yaml(const std::string& path);     // by its ending
bool is_darknet_data(const std::string& path);  // likewise
bool is_class_list(const std::string& path);    // classes.txt and the like

// Each throws InputError naming the file and, if possible, the line.
YoloYaml read_yolo_yaml(const std::string& path);
YoloYaml read_darknet_data(const std::string& path);
// Chooses one of the above by the name of the file, or reads a list of classes, which names no splits.
YoloYaml read_yolo_description(const std::string& path);

}  // namespace saccade
