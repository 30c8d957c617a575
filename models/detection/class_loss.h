// Class losses: what the logits of queries mean, what they cost in the matching and in the loss. A new one is one file in
// models/detection/class_losses/ with a line that registers it, and its name in the schema (configs/saccade.proto).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "core/runtime/registry.h"

namespace saccade {

struct ClassLossOptions {
  double focal_alpha = 0, focal_gamma = 0;
  double no_object_weight = 0;  // softmax: weight of the last class, "no object"
};

// The matched queries of a batch, as rows of the flattened predictions [N * Q, ...], with their objects.
struct MatchedQueries {
  std::vector<int64_t> rows, labels;
  // Where the predictions are: the rows again, i64 [P], the predicted and the true boxes, f32 [P, 4] as (cx, cy, w, h).
  Tensor indices, boxes, truth;
};

struct ClassCandidate {
  float score;  // of the order that score_of keeps
  int64_t query, label;
};

// Unless it says otherwise, every logit is that of a sigmoid: a query may hold any number of classes, or none.
class ClassLoss {
 public:
  virtual ~ClassLoss() = default;
  // A sum over the batch, [] f32, and what it is to be divided by: `objects` unless the loss has weights of its own.
  // logits [N, Q, K].
  struct Sum {
    Var sum;
    double divisor;
  };
  virtual Sum sum(const Var& logits, const MatchedQueries& matched, double objects) const = 0;

  // Columns of the logits after those of the classes.
  virtual int64_t extra_columns() const { return 0; }
  // Class cost of the matching: minus the softmax probability, or else the difference of the focal terms.
  virtual bool matches_probabilities() const { return false; }
  // Whether a query sees an object at all, by its logits and the best of them.
  virtual bool sees_object(const float* logits, int64_t columns, int64_t best) const;
  // What one image's logits [queries, columns] may yield as detections, in any order.
  virtual std::vector<ClassCandidate> candidates(const float* logits, int64_t queries, int64_t columns,
                                                 int64_t classes) const;
  virtual double score_of(float score) const;  // [0, 1]
};

struct ClassLossSpec {
  std::string name;  // criterion.class_loss
  std::string file;
  std::shared_ptr<const ClassLoss> (*make)(const ClassLossOptions& options);
};

Registry<ClassLossSpec>& class_losses();

// f32 [N, Q]: the IoU of the matched queries' boxes with their objects, 0 for the others.
Tensor matched_quality(const Var& logits, const MatchedQueries& matched);
// The label of each of the N Q queries; `background` for those that are not matched.
std::vector<int64_t> label_queries(const Var& logits, const MatchedQueries& matched, int64_t background);
// The same as i64 [N, Q] where the logits are.
Tensor to_device(const std::vector<int64_t>& labels, const Var& logits);

// SACCADE_REGISTER_CLASS_LOSS(name, Class): Class(const ClassLossOptions&)
#define SACCADE_REGISTER_CLASS_LOSS(name, Class)                                                       \
  [[maybe_unused]] static const bool Class##_is_registered = ::saccade::class_losses().add(            \
      {name, __FILE__,                                                                                 \
       [](const ::saccade::ClassLossOptions& options) -> std::shared_ptr<const ::saccade::ClassLoss> { \
         return std::make_shared<Class>(options);                                                      \
       }})

}  // namespace saccade
