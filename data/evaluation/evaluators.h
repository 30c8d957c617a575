// Evaluators judge models. An evaluator is one file with the arithmetic and one line that registers it.
// `eval.evaluator` of a configuration names it; training reports its primary metrics.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/registry.h"
#include "core/types/metrics.h"
#include "data/evaluation/detections.h"
#include "data/evaluation/metric_options.h"
#include "data/formats/ground_truth.h"

namespace saccade {

struct Evaluation {
  Metrics metrics;
  Metrics of_classes = {};         // the main metric of each class that has objects, as "AP/NAME"
  std::string table;               // the same for the console, in lines
  std::string json;                // the same as an object at full precision
  std::vector<std::string> notes;  // messages for the user, one line each
};

// Predictions for images: one or several for a detector, one for a classifier or a model of label maps.
struct Predicted {
  std::vector<Detection> detections = {};
  std::span<const float> logits = {};                       // of a classifier, [K],
  int64_t label = 0;                                        // and the class of its image
  std::span<const uint16_t> labels = {}, true_labels = {};  // of pixels, as LabelMap has them
};

// Consumes one prediction after another.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual void add(Predicted prediction) = 0;
  // Serialises what was added for another process of the program, whose evaluator, started with the same
  // options, continues as if it had been added there. The concatenation of two states stands for both.
  virtual std::string state() const = 0;
  virtual void merge(std::string_view state) = 0;
  // Evaluates what was added so far; a classifier needs at least one image. Throws InputError if a detection
  // does not belong to the ground truth.
  virtual Evaluation result() const = 0;
};

struct EvaluatorSpec {
  struct Options {
    const GroundTruth* truth =
        nullptr;  // of a detector, or whose categories are the pixels' classes; outlives the evaluator
    std::string source = "detections";  // where the detections come from, for messages
    bool per_class = false;             // adds the metrics of each class to the table
    MetricOptions metric_options = {};
  };
  std::string name;
  std::string summary;  // one line
  std::vector<std::string>
      primary;  // reported in training; the best weights are those with the largest first one
  std::unique_ptr<Evaluator> (*start)(const Options& options);
  std::string file = {};   // where it is registered
  bool is_usual = false;   // used if a configuration names none
  bool has_masks = false;  // for a detector: supports MetricOptions::iou
};

// Registries by the name of the task whose models they judge (ModelSpec::task).
inline std::map<std::string, Registry<EvaluatorSpec>>& evaluators_by_task() {
  static std::map<std::string, Registry<EvaluatorSpec>> registries;
  return registries;
}
inline Registry<EvaluatorSpec>& evaluators(const std::string& task) {
  return evaluators_by_task().try_emplace(task, "evaluator").first->second;
}

}  // namespace saccade
