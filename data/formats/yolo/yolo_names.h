// What describes a YOLO data set: a data.yaml (libyaml), Darknet's obj.data, or a list of classes.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace saccade {

// A folder of images or a list of them, as it is written, and where.
struct YoloEntry {
  std::string text;
  int64_t line = 0;
};

struct YoloYaml {
  std::vector<std::string> names;
  std::map<std::string, std::vector<YoloEntry>> splits;  // "train", "val", "test": those that are there
  std::string path;                                      // that they are relative to, as written
  std::vector<std::string> notes = {};                   // on what else it names, a line each
  int64_t key_points = 0, key_point_numbers = 0;  // kpt_shape of pose labels: 17 points of 2 or 3 numbers
};

bool is_yolo_yaml(const std::string& path);     // by its ending
bool is_darknet_data(const std::string& path);  // likewise
bool is_class_list(const std::string& path);    // classes.txt and the like

// Each throws InputError naming the file and, where one is to blame, the line.
YoloYaml read_yolo_yaml(const std::string& path);
YoloYaml read_darknet_data(const std::string& path);
// By the name of the file one of the above, or a list of classes, which names no splits.
YoloYaml read_yolo_description(const std::string& path);

}  // namespace saccade
