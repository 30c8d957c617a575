// Class losses: they define what the logits of queries mean and their cost in the matching and in the loss. A
// new one needs one file in models/detection/class_losses/ with a line that registers it, and its name in the
// schema (configs/saccade.proto).
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
// Every layer has the same number.
struct MatchedQueries {
  std::vector<int64_t> rows, labels;
  // On the device of the predictions: the rows and labels again, i64 [P], and the true boxes, f32 [P, 4] as
  // (cx, cy, w, h).
  Tensor indices, classes, truth;
  Tensor weights;  // f32 [P]; undefined if all are 1
  Var boxes;       // [P, 4], the predicted boxes
  // [P], on the host, and the size of the padded images that the masks cover.
  struct Object {
    const Target* image;
    const Instance* instance;
  };
  std::vector<Object> objects;
  ImageSize canvas;
  // The number of each image's queries that have an object in the layers that share their pairs, and the
  // total number of queries (CriterionOptions::shared_boxes).
  std::vector<int64_t> shared_pairs;
  int64_t shared_queries = 0;
  // If masks are predicted by their factors: [P], the index of each object in the batch; the objects' masks;
  // and values that the terms of masks share.
  std::vector<int64_t> object_rows;
  std::shared_ptr<const TrueMasks> masks;
  mutable std::shared_ptr<const MaskPairs> at_points;
};

// Counts over the queries of one layer in all images of a step (core/types/step_images.h).
struct QueryCounts {
  double objects = 1;  // how often objects are asked for, at least 1: the divisor of box losses
  double matched = 0;  // queries that answer an object: fewer if an image has more objects than queries
  double queries = 0;  // all queries
  double images = 0;
};

struct ClassCandidate {
  float score;  // in the order that score_of preserves
  int64_t query, label;
};

// By default every logit is that of a sigmoid, so a query may have any number of classes,
// or none.
class ClassLoss {
 public:
  virtual ~ClassLoss() = default;
  // Returns a sum over the batch for each layer of logits [G, N, Q, K], f32 [G].
  virtual Var sum(const Var& logits, const MatchedQueries& matched) const = 0;
  // Returns the divisor of each sum: the objects, unless the loss has its own weights. It is a number of the
  // whole step, whose batches and processes add up their losses, so it must not depend on the current batch.
  virtual double divisor(const QueryCounts& step) const { return step.objects; }

  // The number of logit columns after those of the classes.
  virtual int64_t extra_columns() const { return 0; }
  // Whether the class cost of the matching is minus the softmax probability, else it uses the focal terms.
  virtual bool matches_probabilities() const { return false; }
  // Returns whether a query sees any object, given its logits and the best of them.
  virtual bool sees_object(const float* logits, int64_t columns, int64_t best) const;
  // Returns the possible detections of one image's logits [queries, columns], in any order.
  virtual std::vector<ClassCandidate> candidates(const float* logits, int64_t queries, int64_t columns,
                                                 int64_t classes) const;
  virtual double score_of(float score) const;  // [0, 1]
  // Whether the candidates are all pairs of a query and a class with their logits,
  // so that their order is known before the host sees them.
  virtual bool ranks_logits() const { return true; }
};

struct ClassLossSpec {
  std::string name;  // criterion.class_loss
  std::string file;
  std::shared_ptr<const ClassLoss> (*make)(const ClassLossOptions& options);
  // The criterion's defaults that differ from the schema's with this loss, as text of config::Criterion.
  const char* preset = "";
};

inline Registry<ClassLossSpec>& class_losses() { return registry_of<ClassLossSpec>("class loss"); }

// f32 [G, N, Q]: the IoU of the matched queries' boxes with their objects, 0 for other queries.
Tensor matched_quality(const Var& logits, const MatchedQueries& matched);
// The label of each query, i64 [G, N, Q] on the device of the logits; `background` for unmatched queries.
Tensor label_queries(const Var& logits, const MatchedQueries& matched, int64_t background);
// Keeps the losses of the layers separate.
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
