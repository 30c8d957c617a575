// The entries of a list of detections as written in its file.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/formats/json_record.h"

namespace saccade {

inline constexpr int64_t kNoName = -1;
inline constexpr const char* kNoCategoryId = "field \"category_id\" is missing";

// Numbers repeated texts.
class Texts {
 public:
  int64_t add(const std::string& text) {
    if (text.empty()) return kNoName;
    const auto [it, is_new] = places_.try_emplace(text, std::ssize(texts_));
    if (is_new) texts_.push_back(text);
    return it->second;
  }
  const std::string& at(int64_t place) const { return texts_.at(static_cast<size_t>(place)); }
  int64_t size() const { return std::ssize(texts_); }

 private:
  std::unordered_map<std::string, int64_t> places_;
  std::vector<std::string> texts_;
};

// The fields of an entry besides its detection.
struct Listed {
  bool has_id = false, has_category = false, has_box = false;
  int64_t file_name = kNoName, word = kNoName, category = kNoName;  // word: the image_id if it is a text
};

// The entries, with the information in a dictionary's own lists.
class ResultFile {
 public:
  // Throws InputError as read_detections does. Without `reads_masks` segmentations are skipped.
  ResultFile(const std::string& path, bool reads_masks);

  // Whether an entry has a segmentation but no bbox.
  bool lacks_boxes() const { return lacks_boxes_; }

  Texts texts;
  std::vector<Detection> detections;  // with masks if these are runs
  std::vector<Listed> entries;        // one per detection
  std::vector<std::pair<size_t, std::shared_ptr<const Segmentation>>> polygons;  // with the detection's index

 private:
  void add(JsonValue value);
  // For a list of objects with "id": maps it to the field `name`.
  void names(JsonValue value, std::string_view name, std::unordered_map<std::string, std::string>& out);

  JsonFile json_;
  bool reads_masks_, lacks_boxes_ = false;
};

}  // namespace saccade
