// Finds images by the names that lists of detections give them.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "data/formats/ground_truth.h"

namespace saccade {

class ImageNames {
 public:
  // The truth must outlive it.
  explicit ImageNames(const GroundTruth& truth);
  bool has_id(int64_t id) const { return ids_.contains(id); }
  // Both return an error text about the name, or "". find_file takes a path; the path or the image's own one
  // may lack the first folders. Two names never stand for one image.
  std::string find_file(const std::string& name, int64_t& id);
  // Takes an id that is a text: the word that is the image's id in its list, the id in quotes,
  // or the file's name without its extension.
  std::string find_word(const std::string& word, int64_t& id);
  // Returns the image whose file name is this number ("000012.jpg"), if there is one such image and the
  // annotations do not number images.
  std::optional<int64_t> find_number(int64_t number) const;

 private:
  using Images = std::unordered_multimap<std::string, const ImageInfo*>;
  std::string find(const Images& images, const std::string& key, const std::string& name, bool with_extension,
                   int64_t& id);

  Images by_name_, by_stem_;
  std::unordered_map<std::string, int64_t> words_;
  std::unordered_set<int64_t> ids_;
  std::unordered_map<int64_t, std::optional<int64_t>> numbers_;  // in file names; nothing if several have it
  std::unordered_map<int64_t, std::string> names_;               // names by which images were found
};

}  // namespace saccade
