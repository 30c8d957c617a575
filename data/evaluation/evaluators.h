// What models are judged by. An evaluator is one file: the arithmetic and one line that registers it. `eval.evaluator` of a
// configuration names it; training reports its primary metrics.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/runtime/registry.h"
#include "core/types/metrics.h"
#include "data/evaluation/detections.h"
#include "data/evaluation/figure_options.h"
#include "data/formats/ground_truth.h"

namespace saccade {

struct Evaluation {
  Metrics metrics;
  Metrics of_classes = {};         // the main one of each class that has objects, as "AP/NAME"
  std::string table;               // the same for the console, lines
  std::string json;                // the same as an object at full precision
  std::vector<std::string> notes;  // what the user should know, a line each
};

struct DetectionEvaluator {
  struct Options {
    std::string source = "detections";  // where they come from, for messages
    bool per_class = false;             // the table also has the metrics of each class
    FigureOptions figures = {};
  };
  std::string name;
  std::string summary;  // one line
  std::vector<std::string>
      primary;  // reported in training; by the first the best weights are chosen: larger is better
  // Throws InputError when a detection does not belong to the ground truth.
  Evaluation (*evaluate)(const GroundTruth& truth, std::span<const Detection> detections,
                         const Options& options);
  std::string file = {};  // where it is registered
};

// Takes one image after another.
class ClassificationScore {
 public:
  virtual ~ClassificationScore() = default;
  // The image's logits [K] and class.
  virtual void add(std::span<const float> logits, int64_t label) = 0;
  // Of the images so far, at least one.
  virtual Evaluation result() const = 0;
};

struct ClassificationEvaluator {
  std::string name;
  std::string summary;
  std::vector<std::string> primary;  // as a DetectionEvaluator's
  std::unique_ptr<ClassificationScore> (*start)();
  std::string file = {};
};

inline Registry<DetectionEvaluator>& detection_evaluators() {
  static Registry<DetectionEvaluator> registry("evaluator");
  return registry;
}
inline Registry<ClassificationEvaluator>& classification_evaluators() {
  static Registry<ClassificationEvaluator> registry("evaluator");
  return registry;
}

}  // namespace saccade
