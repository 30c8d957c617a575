// The same small data set in each of the formats.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/images/image.h"
#include "tests/test_folder.h"

namespace saccade::test {

inline const std::vector<std::string> kDetectionFormats{"coco", "yolo", "voc", "csv"};

inline void write_picture(const std::string& path) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  write_png(Image(20, 20), path);
}
inline void write_text(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  write_bytes(path, text);
}

// Images and the class of the object in each, all with the box [1, 1, 8, 8].
using Objects = std::vector<std::pair<std::string, std::string>>;

// Writes a split in Roboflow's layout, and its images; the classes are `names`, or follow the order in which
// they occur. COCO's category ids begin with first_id, or 11, and those of images and boxes with 1.
inline void write_set(const std::string& folder, const std::string& format, const std::string& split,
                      const Objects& objects, int64_t first_id = 11, std::vector<std::string> names = {}) {
  std::vector<std::string> images;
  for (const auto& [image, name] : objects) {
    if (std::find(images.begin(), images.end(), image) == images.end()) images.push_back(image);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  if (format == "yolo") std::sort(names.begin(), names.end());
  auto place_of = [](const std::vector<std::string>& list, const std::string& word) {
    return std::find(list.begin(), list.end(), word) - list.begin();
  };
  const std::string own = folder + "/" + split + "/";
  for (const std::string& image : images)
    if (!image.starts_with("..")) write_picture(own + (format == "yolo" ? "images/" : "") + image);
  std::string text, boxes;
  if (format == "coco") {
    for (size_t i = 0; i < images.size(); ++i)
      text += fmt::format(R"({}{{"id":{},"file_name":"{}","width":20,"height":20}})", i ? "," : "", i + 1,
                          images[i]);
    for (size_t i = 0; i < objects.size(); ++i)
      boxes += fmt::format(R"({}{{"id":{},"image_id":{},"category_id":{},"bbox":[1,1,8,8],"area":64}})",
                           i ? "," : "", i + 1, place_of(images, objects[i].first) + 1,
                           place_of(names, objects[i].second) + first_id);
    std::string classes;
    for (size_t k = 0; k < names.size(); ++k)
      classes += fmt::format(R"({}{{"id":{},"name":"{}"}})", k ? "," : "", first_id + static_cast<int64_t>(k),
                             names[k]);
    write_text(
        own + "_annotations.coco.json",
        fmt::format(R"({{"images":[{}],"annotations":[{}],"categories":[{}]}})", text, boxes, classes));
  } else if (format == "csv") {
    for (const auto& [image, name] : objects) text += image + "," + name + ",1,1,9,9\n";
    write_text(own + "_annotations.csv", "image,class,x1,y1,x2,y2\n" + text);
  } else {
    for (const std::string& image : images) {
      text.clear();
      for (const auto& [other, name] : objects) {
        if (other != image) continue;
        text += format == "yolo"
                    ? fmt::format("{} 0.25 0.25 0.4 0.4\n", place_of(names, name))
                    : fmt::format(
                          "<object><name>{}</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax>"
                          "<ymax>9</ymax></bndbox></object>",
                          name);
      }
      const std::string stem = std::filesystem::path(image).stem().string();
      if (format == "yolo")
        write_text(own + "labels/" + stem + ".txt", text);
      else
        write_text(own + stem + ".xml",
                   "<annotation><filename>" + image + "</filename>" + text + "</annotation>");
    }
    if (format == "voc") return;
    text = "names: [" + fmt::format("{}", fmt::join(names, ", ")) + "]\ntrain: train/images\n";
    if (std::filesystem::exists(folder + "/val")) text += "val: val/images\n";
    write_text(folder + "/data.yaml", text);
  }
}

}  // namespace saccade::test
