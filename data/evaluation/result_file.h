// The entries of a list of detections as they stand in its file.
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

// Texts that come again and again, by number.
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

// What an entry has besides its detection.
struct Listed {
  bool has_id = false, has_box = false;
  int64_t file_name = kNoName, word = kNoName, category = kNoName;  // word: the image_id, where it is a text
};

// The entries, with what a dictionary's own lists say about them.
class ResultFile {
 public:
  // Throws InputError as read_detections does. Without `reads_masks` segmentations are passed over.
  ResultFile(const std::string& path, bool reads_masks);

  // Whether an entry has a segmentation and no bbox.
  bool lacks_boxes() const { return lacks_boxes_; }

  Texts texts;
  std::vector<Detection> detections;  // with masks where these are runs
  std::vector<Listed> entries;        // of each of them
  std::vector<std::pair<size_t, std::shared_ptr<const Segmentation>>> polygons;  // and its place among them

 private:
  void add(JsonValue value);
  // Of a list of objects with "id": the field `name` by it.
  void names(JsonValue value, std::string_view name, std::unordered_map<std::string, std::string>& out);

  JsonFile json_;
  bool reads_masks_, lacks_boxes_ = false;
};

}  // namespace saccade
