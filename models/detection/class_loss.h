// Class losses: what the logits of queries mean, what they cost in the matching and in the loss. A new one is
// one file in models/detection/class_losses/ with a line that registers it, and its name in the schema
// (configs/saccade.proto).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "core/runtime/registry.h"
#include "core/types/target.h"

namespace saccade {

struct ClassLossOptions {
  double focal_alpha = 0, focal_gamma = 0;
  double no_object_weight = 0;  // softmax: weight of the last class, "no object"
};

class TrueMasks;   // models/detection/masks/true_masks.h
struct MaskPairs;  // models/detection/masks/mask_pairs.h

// The matched queries of G layers, as rows of the flattened predictions [G * N * Q, ...], with their objects.
// Every layer has as many.
struct MatchedQueries {
  std::vector<int64_t> rows, labels;
  // Where the predictions are: the rows and labels again, i64 [P], and the true boxes, f32 [P, 4] as (cx,
  // cy, w, h).
  Tensor indices, classes, truth;
  Tensor weights;  // f32 [P]; undefined: 1 each
  Var boxes;       // [P, 4], the predicted ones
  // [P], on the host, and the size of the padded images that masks are predicted of.
  struct Object {
    const Target* image;
    const Instance* instance;
  };
  std::vector<Object> objects;
  ImageSize canvas;
  // How many queries of each image have an object in the layers that share theirs, and of how many
  // (CriterionOptions::shared_boxes).
  std::vector<int64_t> shared_pairs;
  int64_t shared_queries = 0;
  // Where masks are predicted by their factors: [P], which of the batch's objects; their masks; what the
  // terms that compare them share.
  std::vector<int64_t> object_rows;
  std::shared_ptr<const TrueMasks> masks;
  mutable std::shared_ptr<const MaskPairs> at_points;
};

// The queries of one layer in all images of a step (core/types/step_images.h).
struct QueryCounts {
  double objects = 1;  // how often objects are asked for, at least 1: the divisor of the losses of boxes
  double matched = 0;  // the queries that answer one: fewer where an image has more objects than queries
  double queries = 0;  // all
  double images = 0;
};

struct ClassCandidate {
  float score;  // of the order that score_of keeps
  int64_t query, label;
};

// Unless it says otherwise, every logit is that of a sigmoid: a query may hold any number of classes,
// or none.
class ClassLoss {
 public:
  virtual ~ClassLoss() = default;
  // For each layer of logits [G, N, Q, K] a sum over the batch, f32 [G].
  virtual Var sum(const Var& logits, const MatchedQueries& matched) const = 0;
  // What each of them is divided by: the objects, unless the loss has weights of its own. A number of the
  // whole step, whose batches and processes add up their losses; nothing of it may come from the batch at
  // hand.
  virtual double divisor(const QueryCounts& step) const { return step.objects; }

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
  // Whether those are all pairs of a query and a class with their logits:
  // their order is known before the host sees them.
  virtual bool ranks_logits() const { return true; }
};

struct ClassLossSpec {
  std::string name;  // criterion.class_loss
  std::string file;
  std::shared_ptr<const ClassLoss> (*make)(const ClassLossOptions& options);
  // Where the defaults of the criterion differ from the schema's with this loss: text of config::Criterion.
  const char* preset = "";
};

inline Registry<ClassLossSpec>& class_losses() { return registry_of<ClassLossSpec>("class loss"); }

// f32 [G, N, Q]: the IoU of the matched queries' boxes with their objects, 0 for the others.
Tensor matched_quality(const Var& logits, const MatchedQueries& matched);
// The label of each query, i64 [G, N, Q] where the logits are; `background` for those that are not matched.
Tensor label_queries(const Var& logits, const MatchedQueries& matched, int64_t background);
// The layers' losses apart.
inline LossParts layers_of(const Var& logits) { return LossParts::apart(logits.dim(0)); }

// SACCADE_REGISTER_CLASS_LOSS(name, Class, preset): Class(const ClassLossOptions&)
#define SACCADE_REGISTER_CLASS_LOSS(name, Class, preset)                                               \
  [[maybe_unused]] static const bool Class##_is_registered = ::saccade::class_losses().add(            \
      {name, __FILE__,                                                                                 \
       [](const ::saccade::ClassLossOptions& options) -> std::shared_ptr<const ::saccade::ClassLoss> { \
         return std::make_shared<Class>(options);                                                      \
       },                                                                                              \
       preset})

}  // namespace saccade
