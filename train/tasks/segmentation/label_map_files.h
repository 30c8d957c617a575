// Writes label maps that a model has made, for commands and services.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/types/label_map.h"
#include "train/checkpoints/load_model.h"

namespace saccade {

class LabelMapFiles {
 public:
  // Throws InputError if the category ids are not values of a PNG file; `checkpoint` begins its message.
  LabelMapFiles(const LoadedModel& model, const std::string& checkpoint);
  // Returns a PNG file of category ids, in colours if its palette suffices.
  std::vector<uint8_t> bytes(const LabelMap& labels) const;
  // Returns the classes that occur, by falling number of pixels, as the elements of a JSON list. counts:
  // pixels of each label.
  std::string classes_json(const std::vector<int64_t>& counts) const;
  std::vector<int64_t> counts(const LabelMap& labels) const;

 private:
  const LoadedModel& model_;
  std::vector<uint32_t> palette_;
};

}  // namespace saccade
