#pragma once

#include <string>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/formats/dataset.h"
#include "data/pages/html.h"
#include "train/report/evaluation_sections.h"

namespace saccade {

// Before the evaluation: throws InputError where images would share a file of labels.
void check_label_errors(const Dataset& dataset, const LabelErrorOptions& options);
// The labels that the detections contradict: a section with pictures, and the files that the options ask for.
// `remarks`: what there is to say about the set (notes_on_judged), which the page says too. ap50: of the
// detections; where it is low, their word counts little.
void add_label_errors(Page& page, const Dataset& dataset, const std::vector<Detection>& detections,
                      double ap50, const ReportOptions& options, const std::vector<std::string>& remarks);

}  // namespace saccade
