// Finds contradictions between a detector and the labels of a data set: labels that are missing,
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
  kMissing,     // a detection where there is no label
  kWrongClass,  // the labelled object is detected as another class
  kWrongBox,    // it is detected, but in another place or size
  kNotFound     // nothing is detected there
};
inline constexpr LabelErrorKind kLabelErrorKinds[] = {LabelErrorKind::kMissing, LabelErrorKind::kWrongClass,
                                                      LabelErrorKind::kWrongBox, LabelErrorKind::kNotFound};
// The word used in files: "missing", "wrong_class", "wrong_box", "not_found"; and the title used in pages.
const char* word_of(LabelErrorKind kind);
const char* title_of(LabelErrorKind kind);

struct LabelError {
  LabelErrorKind kind{};
  double suspicion = 0;  // from 0 to 1: the model's confidence and its lack of support for the label
  size_t image = 0;      // index in truth.images
  const Annotation* label = nullptr;  // null if it is missing
  const Detection* found = nullptr;   // the detection in its place; null if there is none
  double iou = 0;                     // of both; for a missing label, with the nearest label
};

// A model's confidence from 0 to 1: the score relative to the mean score of detections that match labels of
// the class, so that classes and models with low scores count alike. For a class without matches, the mean
// over all classes is used.
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

// Returns errors by descending suspicion, ties in the order of the images; each label appears at most once.
// Boxes count, not masks. Crowds are not judged, and a detection that lies at least half in one is not
// missing. The errors point into both lists.
std::vector<LabelError> find_label_errors(const GroundTruth& truth, std::span<const Detection> detections,
                                          double least_suspicion);

}  // namespace saccade
