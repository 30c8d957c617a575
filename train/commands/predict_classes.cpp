// saccade predict with a classifier: the best classes of each image, printed and as a list.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/formats/file.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "train/classification/evaluate.h"
#include "train/commands/predict_files.h"
#include "train/config/options.h"
#include "train/logs/progress.h"

namespace saccade {

namespace {

constexpr size_t kShownClasses = 5;

struct ClassScore {
  size_t label;
  double score;  // softmax
};

// Falling score, the smaller label first where they are equal.
std::vector<ClassScore> best_classes(const std::vector<float>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<ClassScore> scores;
  double sum = 0;
  for (size_t k = 0; k < logits.size(); ++k) {
    scores.push_back({k, std::exp(logits[k] - largest)});
    sum += scores.back().score;
  }
  for (ClassScore& s : scores) s.score /= sum;
  std::stable_sort(scores.begin(), scores.end(), [](auto& a, auto& b) { return a.score > b.score; });
  if (scores.size() > kShownClasses) scores.resize(kShownClasses);
  return scores;
}

}  // namespace

int predict_classes(const PredictArguments& arguments, const std::vector<PredictInput>& inputs,
                    const LoadedModel& model) {
  if (arguments.sampling_points)
    fail_input("--sampling-points: {} is a classifier, expected a detector", arguments.checkpoint);
  if (arguments.threshold)
    fail_input("--threshold: {} is a classifier, which scores every class; expected a detector",
               arguments.checkpoint);
  const kernels::ImageNormalization norm = image_normalization(model.config);
  EvaluationMode mode(*model.classifier, precision_of(model.config));
  Workspace workspace(arguments.output);
  ProgressCounter progress("predict", static_cast<int64_t>(inputs.size()), "images");
  std::string list, lines;
  for (const PredictInput& input : inputs) {
    Batch batch = one_image_batch(read_image(input.path), model.config);
    batch.targets[0].file_name = input.path;
    std::string top, line = input.name + ":";
    for (const ClassScore& s : best_classes(classify(*model.classifier, batch, norm))) {
      const std::string& name = model.class_names.at(s.label);
      top += fmt::format("{}{{\"class\": {}, \"score\": {}}}", top.empty() ? "" : ", ", json_quote(name),
                         s.score);
      line += fmt::format(" {} {:.3f}", name, s.score);
    }
    list += fmt::format("{}\n{{\"file_name\": {}, \"classes\": [{}]}}", list.empty() ? "" : ",",
                        json_quote(input.name), top);
    lines += line + "\n";
    progress.add(1);
  }
  progress.finish();
  write_file(workspace.file("predictions.json"), std::string_view("[" + list + "\n]\n"));
  workspace.publish("predictions.json");
  fmt::print("{}{}: predictions.json with the best classes of {} images\n", lines, arguments.output,
             inputs.size());
  return 0;
}

}  // namespace saccade
