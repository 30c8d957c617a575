// The set loss of the DETR family: every decoder layer's predictions are matched with the objects, then
// class, L1 and GIoU losses are summed over the pairs and divided by the number of objects.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/detector.h"
#include "train/matcher.h"

namespace saccade {

enum class ClassLossKind { kFocal, kVarifocal, kSoftmax };

struct CriterionOptions {
  ClassLossKind class_loss = ClassLossKind::kFocal;
  double class_weight = 2, bbox_weight = 5, giou_weight = 2;
  double focal_alpha = 0.25, focal_gamma = 2;
  double no_object_weight = 0.1;  // softmax: weight of the last class, "no object"
  MatcherOptions matcher;
};

struct CriterionResult {
  Var total;  // [] f32
  // The weighted parts by name; their sum is the total: "class", "bbox", "giou" of the last layer, then with
  // suffixes _0, _1, ... those of the earlier layers and _enc those of the two-stage proposals.
  std::vector<std::pair<std::string, double>> parts;
};

class SetCriterion {
 public:
  explicit SetCriterion(const CriterionOptions& options) : options_(options) {}
  // objects: what the sums are divided by, at least 1; 0 counts the objects of `targets`. Images without
  // objects and batches without any are fine: all their queries are background.
  CriterionResult forward(const DetectorOutput& output, const std::vector<Target>& targets,
                          double objects = 0) const;

 private:
  void add_layer(const LayerPrediction& prediction, const std::vector<Target>& targets, double objects,
                 int64_t groups, bool binary, const std::string& suffix, CriterionResult& result) const;
  CriterionOptions options_;
};

}  // namespace saccade
