// What models are judged by. An evaluator is one file: the arithmetic and one line that registers it.
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
  Metrics of_classes = {};         // the main one of each class that has objects, as "AP/NAME"
  std::string table;               // the same for the console, lines
  std::string json;                // the same as an object at full precision
  std::vector<std::string> notes;  // what the user should know, a line each
};

// What a model says of images, one or several of a detector, one of a classifier or of a model of label maps.
struct Predicted {
  std::vector<Detection> detections = {};
  std::span<const float> logits = {};                       // of a classifier, [K],
  int64_t label = 0;                                        // and its image's class
  std::span<const uint16_t> labels = {}, true_labels = {};  // of pixels, as LabelMap has them
};

// Takes one prediction after another.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual void add(Predicted prediction) = 0;
  // What was added, as bytes for another process of the program: its evaluator, begun with the same options,
  // continues as if it had been added there. Two of these, one behind the other, are one of both.
  virtual std::string state() const = 0;
  virtual void merge(std::string_view state) = 0;
  // Of what was added so far; of a classifier at least one image. Throws InputError when a detection does not
  // belong to the ground truth.
  virtual Evaluation result() const = 0;
};

struct EvaluatorSpec {
  struct Options {
    const GroundTruth* truth =
        nullptr;  // of a detector, or whose categories are the classes of pixels; lives longer
    std::string source = "detections";  // where they come from, for messages
    bool per_class = false;             // the table also has the metrics of each class
    MetricOptions metric_options = {};
  };
  std::string name;
  std::string summary;  // one line
  std::vector<std::string>
      primary;  // reported in training; by the first the best weights are chosen: larger is better
  std::unique_ptr<Evaluator> (*start)(const Options& options);
  std::string file = {};   // where it is registered
  bool is_usual = false;   // counts where a configuration names none
  bool has_masks = false;  // of a detector: knows MetricOptions::iou
};

// By the name of the task whose models they judge (ModelSpec::task).
inline std::map<std::string, Registry<EvaluatorSpec>>& evaluators_by_task() {
  static std::map<std::string, Registry<EvaluatorSpec>> registries;
  return registries;
}
inline Registry<EvaluatorSpec>& evaluators(const std::string& task) {
  return evaluators_by_task().try_emplace(task, "evaluator").first->second;
}

}  // namespace saccade
