// What the tasks' sections of a run's report about how good its model is are made from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/evaluation/confusion.h"
#include "data/formats/data_format.h"
#include "data/pages/html.h"
#include "train/checkpoints/load_model.h"
#include "train/inference/arguments.h"
#include "train/inference/evaluation.h"

namespace saccade {

struct ReportOptions {
  DataPaths paths;                  // the validation set
  std::optional<double> threshold;  // unset: the best F1's
  std::string detections = {};      // a file of them instead of evaluating
  std::string source = {};          // what is judged, for messages
  std::string checkpoint = {};      // of the classes, for messages; "": there is none
  // Where the detections are given, it has no module, and no classes where there is no checkpoint either.
  const LoadedModel& model;
  std::vector<std::string> classes = {};  // the metrics are of these only; empty: of all
  EvaluatorOptions evaluation = {};
  MetricOptions metric_options = {};  // of a detector
  LabelErrorOptions label_errors = {};
};

// Of the classes with most objects where there are many, and what is confused most. `has_background`:
// the last row and column.
Html confusion_table(const ConfusionMatrix& matrix, bool has_background);
// A member of a JSON object; rows without a name are of the background.
std::string confusion_json(const ConfusionMatrix& matrix);

}  // namespace saccade
