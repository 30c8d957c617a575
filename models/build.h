// From configuration to model.
#pragma once

#include <memory>

#include "layers/args.h"
#include "models/classifier.h"
#include "models/detector.h"

namespace saccade {

// `model` is the config section of that name; num_classes is K. The parameters are not yet initialised.
// Throws InputError naming the field that is wrong.
std::shared_ptr<Detector> build_detector(const Args& model, int64_t num_classes);

// The same for model.type "classifier": the backbone that the section names, with its own class head.
std::shared_ptr<Classifier> build_classifier(const Args& model, int64_t num_classes);

}  // namespace saccade
