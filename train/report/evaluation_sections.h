// What the tasks share for the sections of a run's report about the quality of its model.
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
  std::optional<double> threshold;  // if unset, the one of the best F1
  std::string detections = {};      // a file of detections to use instead of evaluating
  std::string source = {};          // name of what is evaluated, for messages
  std::string checkpoint = {};      // the source of the classes, for messages; empty if none
  // If detections are given, it has no module, and without a checkpoint no classes either.
  const LoadedModel& model;
  std::vector<std::string> classes = {};  // the metrics cover only these; if empty, all
  EvaluatorOptions evaluation = {};
  MetricOptions metric_options = {};  // of a detector
  LabelErrorOptions label_errors = {};
};

// Shows the classes with most objects if there are many, and the most frequent confusions. `has_background`:
// the last row and column are the background's.
Html confusion_table(const ConfusionMatrix& matrix, bool has_background);
// A member of a JSON object; rows without a name stand for the background.
std::string confusion_json(const ConfusionMatrix& matrix);

}  // namespace saccade
