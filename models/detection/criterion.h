// The set loss of the DETR family: every decoder layer's predictions are matched with the objects, then
// class, L1 and GIoU losses are summed over the pairs and divided by the number of objects.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/types/metrics.h"
#include "models/detection/matcher.h"
#include "models/detector.h"

namespace saccade {

enum class ClassLossKind { kFocal, kVarifocal, kSoftmax };

struct CriterionOptions {
  ClassLossKind class_loss = ClassLossKind::kFocal;
  double class_weight = 2, bbox_weight = 5, giou_weight = 2;
  double focal_alpha = 0.25, focal_gamma = 2;
  double no_object_weight = 0.1;  // softmax: weight of the last class, "no object"
  bool aux = true;                // losses of the decoder layers before the last one
  // How often an object is matched within each extra query group (hybrid matching, Jia et al. 2023); once in
  // the first one. 1 is Group DETR (Chen et al. 2023).
  int64_t extra_group_repeat = 1;
  MatcherOptions matcher;
};

struct CriterionResult {
  Var total;  // [] f32
  // The weighted parts by name; their sum is the total: "class", "bbox", "giou" of the last layer, then with
  // suffixes _0, _1, ... those of the earlier layers and _enc those of the two-stage proposals.
  // One number each, f32, where the predictions are.
  std::vector<std::pair<std::string, Tensor>> parts;
  // For logs, of the last layer's first query group: "class_error" (per cent of the matched queries whose
  // best class is another one; 0 without objects) and "cardinality_error" (mean absolute difference of the
  // number of queries that see an object, score over 0.5 or best class not "no object", and the number of
  // objects).
  Metrics metrics;
  // Not empty when predictions for objects are not finite (see Matching); total is then NaN, also where the
  // assignment avoided them.
  std::vector<std::string> problems;
  std::vector<int64_t> bad_images;
};

class SetCriterion {
 public:
  explicit SetCriterion(const CriterionOptions& options) : options_(options) {}
  // objects: what the sums are divided by, at least 1; 0 counts the objects of `targets`. With query groups
  // it is multiplied by how often each object is matched, 1 + (groups - 1) * extra_group_repeat. The softmax
  // class loss is divided by the sum of the class weights over all queries instead. Images without objects
  // and batches without any are fine: all their queries are background.
  CriterionResult forward(const DetectorOutput& output, const std::vector<Target>& targets,
                          double objects = 0) const;

 private:
  CriterionOptions options_;
};

}  // namespace saccade
