#include "data/evaluation/evaluators.h"

namespace saccade {

Registry<DetectionEvaluator>& detection_evaluators() {
  static Registry<DetectionEvaluator> registry("evaluator");
  return registry;
}

Registry<ClassificationEvaluator>& classification_evaluators() {
  static Registry<ClassificationEvaluator> registry("evaluator");
  return registry;
}

}  // namespace saccade
