// saccade weights: lists the published weights that are known by name, and handles those in the cache.
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/files/nearest.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "train/commands/commands.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"
#include "train/weights/cache.h"
#include "train/weights/fetch.h"
#include "train/weights/http.h"

namespace saccade {

namespace {

const PublishedWeights& weights_named(const std::string& name) {
  if (const PublishedWeights* weights = find_weights(name)) return *weights;
  std::vector<std::string> names;
  for (const PublishedWeights& w : published_weights()) names.push_back(w.name());
  fail_input("saccade weights: no published weights \"{}\"{} (saccade weights list shows all)",
             shortened(name), did_you_mean(nearest_name(name, names)));
}

std::string weights_json(const PublishedWeights& w) {
  const auto text_or_null = [](bool there, const std::string& text) {
    return there ? json_quote(text) : "null";
  };
  const CachedWeights cached(w);
  std::string recipes;
  for (const std::string& recipe : w.recipe()) recipes += (recipes.empty() ? "" : ", ") + json_quote(recipe);
  return fmt::format(
      R"({{"name": {}, "recipes": [{}], "data": {}, "url": {}, "bytes": {}, "sha256": {}, "licence": {}, "metric": {}, )"
      R"("value": {}, "page": {}, "file": {}, "fetched": {}}})",
      json_quote(w.name()), recipes, json_quote(w.data()), json_quote(without_passwords(w.url())),
      w.has_bytes() ? std::to_string(w.bytes()) : "null", text_or_null(w.has_sha256(), w.sha256()),
      text_or_null(w.has_licence(), w.licence()), text_or_null(w.has_value(), w.metric()),
      w.has_value() ? fmt::format("{}", w.value()) : "null",
      text_or_null(w.has_page(), without_passwords(w.page())), json_quote(cached.path()), cached.is_there());
}

}  // namespace

int run_weights_list(const WeightsListArguments& arguments) {
  const NamedFile json(arguments.json);
  const std::vector<PublishedWeights>& all = published_weights();
  size_t name_width = 0, data_width = 0, metric_width = 0;
  for (const PublishedWeights& w : all) {
    name_width = std::max(name_width, w.name().size());
    data_width = std::max(data_width, w.data().size());
    metric_width = std::max(metric_width, metric_text(w).size());
  }
  print_text(
      "Published weights (saccade train --model RECIPE --init-from DATA, or --init-from NAME, fetches them):\n");
  std::string text;
  for (const PublishedWeights& w : all) {
    print_text("  {:<{}}  {:<{}}  {:<{}}  {:>12}  {:<10}  {}\n", w.name(), name_width, w.data(), data_width,
               metric_text(w), metric_width, size_text(w), w.licence(),
               CachedWeights(w).is_there() ? "fetched" : "");
    text += (text.empty() ? "[" : ",\n ") + weights_json(w);
  }
  print_text("They are kept in {}\n", weights_folder());
  json.write((text.empty() ? "[" : text) + "]\n");
  return 0;
}

int run_weights_fetch(const WeightsArguments& arguments) {
  const FetchSettings settings = fetch_settings();
  std::vector<const PublishedWeights*> wanted;
  for (const std::string& name : arguments.names) wanted.push_back(&weights_named(name));
  for (const PublishedWeights* weights : wanted) fetch_weights(*weights, settings, false);
  return 0;
}

int run_weights_verify(const WeightsArguments& arguments) {
  std::vector<const PublishedWeights*> wanted;
  for (const std::string& name : arguments.names) {
    wanted.push_back(&weights_named(name));
    if (const CachedWeights cached(*wanted.back()); !cached.is_there())
      fail_input("{}: is not there, so there is nothing to verify; saccade weights fetch {} fetches it",
                 cached.path(), name);
  }
  if (wanted.empty())
    for (const PublishedWeights& w : published_weights())
      if (CachedWeights(w).is_there()) wanted.push_back(&w);
  std::vector<std::string> damaged;
  for (const PublishedWeights* weights : wanted) {
    const CachedWeights cached(*weights);
    std::string sum;
    using State = CachedWeights::State;
    const State state = cached.check(sum);
    if (state == State::kDamaged) damaged.push_back(weights->name());
    print_line("{}: {}", weights->name(),
               state == State::kDamaged   ? "damaged, " + cached.sum_fault(sum)
               : state == State::kRight   ? "correct, SHA-256 " + sum
               : state == State::kLearnt  ? "SHA-256 recorded now: " + sum
               : state == State::kUnknown ? "nothing to compare with, SHA-256 " + sum
                                          : "removed in the meantime");
  }
  if (wanted.empty()) print_line("there are no weights in {}", weights_folder());
  if (!damaged.empty())
    fail("weights: {} of {} {} damaged ({}); saccade weights fetch downloads {} again", damaged.size(),
         wanted.size(), damaged.size() == 1 ? "is" : "are", fmt::join(damaged, ", "),
         damaged.size() == 1 ? "it" : "them");
  return 0;
}

}  // namespace saccade
