// Runs a classifier over images.
#pragma once

#include <memory>

#include "data/evaluation/evaluators.h"
#include "data/formats/classification_dataset.h"
#include "models/classifier.h"
#include "train/inference/evaluation.h"

namespace saccade {

// What the evaluator finds for all images. The model is left in the mode (training or not) that it was in. Throws InputError
// for a broken image.
Evaluation evaluate_classifier(Classifier& model, const std::shared_ptr<const ClassificationDataset>& images,
                               const EvaluatorSpec& spec, const EvaluatorOptions& options);

}  // namespace saccade
