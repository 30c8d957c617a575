// Where a detector contradicts the labels of a data set: labels that are missing,
// wrong or badly placed (docs/labels.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/formats/ground_truth.h"

namespace saccade {

enum class LabelErrorKind {
  kMissing,     // something is found where no label is
  kWrongClass,  // what lies there is found as another class
  kWrongBox,    // it is found, but in another place or size
  kNotFound     // nothing is found there
};
inline constexpr LabelErrorKind kLabelErrorKinds[] = {LabelErrorKind::kMissing, LabelErrorKind::kWrongClass,
                                                      LabelErrorKind::kWrongBox, LabelErrorKind::kNotFound};
// As it is written in files: "missing", "wrong_class", "wrong_box", "not_found"; and in pages.
const char* word_of(LabelErrorKind kind);
const char* title_of(LabelErrorKind kind);

struct LabelError {
  LabelErrorKind kind{};
  double suspicion = 0;  // from 0 to 1: how sure the model is, and how little it supports the label
  size_t image = 0;      // of truth.images
  const Annotation* label = nullptr;  // null: it is missing
  const Detection* found = nullptr;   // what is there instead; null: nothing
  double iou = 0;                     // of both; of a missing label that with the nearest one
};

// How sure a model is of what it says, from 0 to 1: its score in parts of the mean of those with which it
// finds what labels of the class say, so that classes and models with low scores count alike. Of a class of
// which none was found the mean is that of all.
class UsualScores {
 public:
  void add(int64_t class_id, double score);
  double confidence(int64_t class_id, double score) const;

 private:
  struct Mean {
    double sum = 0, count = 0;
  };
  std::unordered_map<int64_t, Mean> of_class_;
  Mean all_;
};

// By falling suspicion, of equal ones in the order of the images; each label is named once at most. Boxes
// count, not masks. Crowds are not judged, and what is in one by half is not missing.
// The errors point into both lists.
std::vector<LabelError> find_label_errors(const GroundTruth& truth, std::span<const Detection> detections,
                                          double least_suspicion);

}  // namespace saccade
