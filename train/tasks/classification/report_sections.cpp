// Report sections: accuracy and confusions of a classifier, and the images with its worst errors.
#include "core/files/text.h"
#include "train/tasks/classification/classification.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/pages/order.h"
#include "data/pages/picture.h"
#include "train/config/options.h"
#include "train/inference/evaluation_data.h"
#include "train/report/evaluation_sections.h"
#include "train/report/label_error_files.h"
#include "train/tasks/classification/runner.h"

namespace saccade {
namespace {

constexpr size_t kWorstGuesses = 24, kMaxClassRows = 400;
constexpr int64_t kGuessSide = 240;

struct Guess {
  int64_t index = 0;  // of the image
  size_t label = 0, best = 0;
  double own = 0, of_best = 0;  // softmax
  bool in_top5 = false;
};

Guess make_guess(std::span<const float> logits, int64_t label, int64_t index) {
  Guess g{.index = index, .label = static_cast<size_t>(label)};
  g.best = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  int64_t better = 0;
  for (size_t k = 0; k < logits.size(); ++k)
    better += logits[k] > logits[g.label] || (logits[k] == logits[g.label] && k < g.label);
  const std::vector<double> scores = softmax(logits);
  g.of_best = scores[g.best];
  g.own = scores[g.label];
  g.in_top5 = better < 5;
  return g;
}

struct ClassAccuracy {
  int64_t images = 0, top1 = 0, top5 = 0, predicted = 0;
};

std::vector<ClassAccuracy> count_hits(const std::vector<Guess>& guesses, size_t classes) {
  std::vector<ClassAccuracy> counts(classes);
  for (const Guess& g : guesses) {
    ClassAccuracy& own = counts[g.label];
    ++own.images;
    own.top1 += g.best == g.label;
    own.top5 += g.in_top5;
    ++counts[g.best].predicted;
  }
  return counts;
}

double ratio(int64_t part, int64_t of) {
  return of > 0 ? static_cast<double>(part) / static_cast<double>(of) : -1;
}

void add_class_table(Page& page, const std::vector<ClassAccuracy>& counts,
                     const std::vector<std::string>& names) {
  page.section("Classes");
  const bool is_cut = counts.size() > kMaxClassRows;
  std::vector<size_t> order = falling_order(
      counts.size(), [&](size_t i) { return is_cut ? -ratio(counts[i].top1, counts[i].images) : 0.0; });
  if (is_cut) {
    order.resize(kMaxClassRows);
    page.add(note(
        fmt::format("The {} classes with the lowest accuracy, out of {}.", kMaxClassRows, counts.size())));
  }
  std::vector<std::vector<Html>> rows;
  for (size_t i : order) {
    const ClassAccuracy& c = counts[i];
    const double recall = ratio(c.top1, c.images);
    rows.push_back(cells(names[i], count_text(c.images), bar_cell(recall, metric_text(recall)),
                         metric_text(ratio(c.top5, c.images)), metric_text(ratio(c.top1, c.predicted))));
  }
  page.add(
      html_table({{"Class", false},
                  {"Images"},
                  {"Accuracy", false, "recall: fraction of the class's images that are predicted correctly"},
                  {"Top-5"},
                  {"Precision", true, "fraction of the images predicted as the class that belong to it"}},
                 rows));
}

void add_worst(Page& page, const Dataset& images, std::vector<Guess> guesses,
               const std::vector<std::string>& names) {
  std::erase_if(guesses, [](const Guess& g) { return g.best == g.label; });
  std::ranges::stable_sort(guesses, {}, &Guess::own);
  page.section("Worst images");
  const std::vector<Html> shown = first_shown(guesses, kWorstGuesses, [&](const Guess& g) -> Html {
    const std::optional<Image> image = open_picture(images, g.index);
    if (!image) return {};
    const std::string& name = images.file_name(g.index);
    return picture(small_picture(*image, {}, {}, kGuessSide), name,
                   html("<b>{}</b> {}<br>predicted as <b>{}</b> {}<br>{}", names[g.label], metric_text(g.own),
                        names[g.best], metric_text(g.of_best), name));
  });
  page.add(shown.empty() ? note("Every image is classified correctly.") : grid("pictures", shown));
}

// Labels that the model contradicts, as find_label_errors finds them for boxes.
std::vector<LabelErrorEntry> contradicted(const Dataset& images, const std::vector<Guess>& guesses,
                                          const std::vector<std::string>& names, double least_suspicion) {
  UsualScores usual;
  for (const Guess& g : guesses)
    if (g.best == g.label) usual.add(static_cast<int64_t>(g.label), g.own);
  auto confidence = [&](size_t label, double score) {
    return usual.confidence(static_cast<int64_t>(label), score);
  };
  std::vector<LabelErrorEntry> entries;
  for (const Guess& g : guesses) {
    const double suspicion = confidence(g.best, g.of_best) * (1 - confidence(g.label, g.own));
    if (g.best == g.label || suspicion < least_suspicion) continue;
    entries.push_back({.kind = LabelErrorKind::kWrongClass,
                       .suspicion = suspicion,
                       .image = &images.image(g.index),
                       .label = ToldLabel{names[g.label]},
                       .suggestion = ToldLabel{names[g.best]},
                       .score = g.of_best});
  }
  std::ranges::stable_sort(entries, std::ranges::greater(), &LabelErrorEntry::suspicion);
  return entries;
}

std::string guesses_json(const Evaluation& evaluation, const ConfusionMatrix& matrix,
                         const std::vector<ClassAccuracy>& counts) {
  std::string classes;
  for (size_t k = 0; k < counts.size(); ++k)
    classes += fmt::format("{}\n  {{\"name\": {}, \"images\": {}, \"top1\": {}, \"top5\": {}}}", k ? "," : "",
                           json_quote(matrix.names[k]), counts[k].images,
                           ratio(counts[k].top1, counts[k].images), ratio(counts[k].top5, counts[k].images));
  return fmt::format("{{\"metrics\": {}, {}, \"classes\": [{}]}}\n", evaluation.json, confusion_json(matrix),
                     classes);
}

}  // namespace

std::string ClassificationParts::report(Page& page, const ReportOptions& options) const {
  if (!options.model.module) fail_input("--detections: the run is a classifier's, expected a detector's");
  if (options.threshold) fail_input("--threshold: the run is a classifier's, expected a detector's");
  if (const std::string flags = options.metric_options.given_flags(); !flags.empty())
    fail_input("{}: the run is a classifier's, expected a detector's", flags);
  if (options.label_errors.form != LabelErrorOptions().form)
    fail_input("--to: the run is a classifier's, expected a detector's; its label errors are only listed");
  if (!options.paths.annotations.empty())
    fail_input("--annotations: the run is a classifier's, expected only --images or --data");
  const LoadedModel& model = options.model;
  DataPaths paths = options.paths;
  only_classes(paths, options.classes, model, options.checkpoint);
  const auto images = open_judged(paths, model);
  const auto evaluator = evaluator_of(model.config).start({});
  std::vector<Guess> guesses;
  ClassifierRunner runner(model.as<Classifier>(), options.evaluation.normalization);
  for_each_batch(model.as<Classifier>(), images, options.evaluation, [&](const Batch& batch) {
    const std::vector<float> logits = runner.run(batch);
    const size_t classes = logits.size() / batch.targets.size();
    if (classes != model.class_names.size())
      fail_input("{}: the model has {}, but {}; expected equal numbers", options.source,
                 count_of(static_cast<int64_t>(classes), "class", "classes"),
                 count_of(std::ssize(model.class_names), "class name", "class names"));
    for (size_t n = 0; n < batch.targets.size(); ++n) {
      const auto own = std::span<const float>(logits).subspan(n * classes, classes);
      evaluator->add({.logits = own, .label = batch.targets[n].label});
      guesses.push_back(make_guess(own, batch.targets[n].label, batch.targets[n].image_id));
    }
  });
  if (guesses.empty()) fail_input("{}: none of its images can be read", images->name());
  const Evaluation evaluation = evaluator->result();
  const std::vector<ClassAccuracy> counts = count_hits(guesses, model.class_names.size());
  ConfusionMatrix matrix{.names = model.class_names, .counts = {}};
  matrix.counts.assign(counts.size(), std::vector<int64_t>(counts.size(), 0));
  for (const Guess& g : guesses) ++matrix.counts[g.label][g.best];

  page.section("Accuracy");
  std::vector<std::pair<std::string, std::string>> numbers{{count_text(std::ssize(guesses)), "images"}};
  for (const auto& [name, value] : evaluation.metrics) numbers.emplace_back(metric_text(value), name);
  page.add(tiles(numbers));
  add_class_table(page, counts, model.class_names);
  page.section("Confusion matrix");
  page.add(confusion_table(matrix, false));
  const std::vector<LabelErrorEntry> errors =
      contradicted(*images, guesses, model.class_names, options.label_errors.least_suspicion);
  add_worst(page, *images, std::move(guesses), model.class_names);
  page.add(note(fmt::format("Labels that the model contradicts with a suspicion of at least {}: {}.",
                            metric_text(options.label_errors.least_suspicion), errors.size())));
  write_label_errors(options.label_errors, errors, nullptr, "");
  return guesses_json(evaluation, matrix, counts);
}

}  // namespace saccade
