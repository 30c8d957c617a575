#include "train/weights/fetch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/files/file_lock.h"
#include "core/files/nearest.h"
#include "core/runtime/interrupt.h"
#include "core/tensor/error.h"
#include "train/config/text.h"
#include "train/logs/progress.h"
#include "train/weights/http.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTimeoutVariable = "SACCADE_WEIGHTS_TIMEOUT";

void make_weights_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path))
    fail_input("{}: cannot create the weights folder: {}; set SACCADE_CACHE to another one", path,
               error ? error.message() : "it is a file");
}

// Whether the existing file can be used.
bool is_fetched(const PublishedWeights& weights, const CachedWeights& cached, Progress& line, bool quiet) {
  const auto say = [&](const std::string& text) {
    if (!quiet) line.message(text);
  };
  using State = CachedWeights::State;
  std::string sum;
  const State state = cached.check(sum);
  if (state == State::kMissing) return false;
  if (state == State::kDamaged) {
    say(fmt::format("{}: {} is damaged ({}), downloading it again", weights.name(), cached.path(),
                    cached.sum_fault(sum)));
    return false;
  }
  const char* known = state == State::kLearnt    ? ", its SHA-256 recorded now"
                      : state == State::kUnknown ? ", with nothing to compare its SHA-256 with"
                                                 : "";
  say(fmt::format("{}: {}, fetched before{}", weights.name(), cached.path(), known));
  return true;
}

std::string about(const PublishedWeights& w) {
  std::string text = w.data();
  if (w.has_value()) text += ", " + metric_text(w);
  return fmt::format("{}, {}, licence {}", text, size_text(w), w.has_licence() ? w.licence() : "not stated");
}

// Whether the text can be a name, rather than a file.
bool is_like_a_name(const std::string& text) {
  return !text.empty() && text != "-" && text.find_first_of("./") == std::string::npos;
}

const PublishedWeights& chosen_weights(const std::string& flag, const std::string& text,
                                       const std::string& model) {
  if (const PublishedWeights* weights = find_weights(text)) return *weights;
  std::vector<std::string> of_model, names;
  if (!model.empty())
    for (const PublishedWeights* w : weights_of_recipe(model)) {
      if (w->data() == text) return *w;
      of_model.push_back(w->data());
    }
  for (const PublishedWeights& w : published_weights()) names.push_back(w.name());
  const bool is_data =
      std::ranges::any_of(published_weights(), [&](const PublishedWeights& w) { return w.data() == text; });
  if (is_data && model.empty())
    fail_input("{}: \"{}\" needs --model to choose the weights; or give a name from saccade weights list",
               flag, text);
  if (is_data)
    fail_input(
        "{}: there are no published weights of {}{} (saccade weights list shows all)", flag, model,
        of_model.empty() ? "" : fmt::format(" for \"{}\", only for {}", text, fmt::join(of_model, ", ")));
  std::vector<std::string> of_recipe;
  for (const PublishedWeights* w : weights_of_recipe(text)) of_recipe.push_back(w->name());
  if (!of_recipe.empty())
    fail_input("{}: \"{}\" is a recipe; its published weights are {}", flag, text,
               fmt::join(of_recipe, ", "));
  fail_input("{}: no file or published weights have the name \"{}\"{} (saccade weights list shows all)", flag,
             shortened(text), did_you_mean(nearest_name(text, names)));
}

// Returns the weights in the folder of a run, or in Hugging Face's layout; empty if there are none.
std::string weights_in(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return "";
  for (const char* name : {"checkpoints/best.safetensors", "checkpoints/last.safetensors",
                           "model.safetensors.index.json", "model.safetensors", "pytorch_model.bin"})
    if (std::string path = (fs::path(folder) / name).string(); fs::is_regular_file(path, error)) return path;
  return "";
}

}  // namespace

FetchSettings fetch_settings() {
  FetchSettings settings;
  const char* text = std::getenv(kTimeoutVariable);
  if (!text || !*text) return settings;
  if (!parse_number(std::string(text), settings.timeout_seconds) || !(settings.timeout_seconds >= 1) ||
      settings.timeout_seconds > 3600)
    fail_input("{}: \"{}\", expected a number of seconds from 1 to 3600", kTimeoutVariable, text);
  return settings;
}

std::string fetch_weights(const PublishedWeights& weights, const FetchSettings& settings, bool quiet) {
  Progress line;
  const CachedWeights cached(weights);
  // If the file is right nothing is written, as in another user's folder.
  if (is_fetched(weights, cached, line, quiet)) return cached.path();
  make_weights_folder(weights_folder());
  FileLock lock(cached.lock_path());
  bool waited = false;
  for (std::string owner; !(owner = lock.take()).empty(); waited = true) {
    if (!waited && !quiet) line.message(fmt::format("{}: {} is fetching it; waiting", weights.name(), owner));
    check_interrupt();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  if (waited && is_fetched(weights, cached, line, quiet)) return cached.path();
  if (!quiet)
    line.message(
        fmt::format("{}: {}; from {}", weights.name(), about(weights), without_passwords(weights.url())));
  download(weights, cached, settings, quiet);
  return cached.path();
}

std::string weights_file(const std::string& flag, const std::string& text, const std::string& model,
                         bool quiet) {
  if (std::string inside = weights_in(text); !inside.empty()) {
    if (!quiet) Progress().message(fmt::format("{} {}: using {}", flag, text, inside));
    return inside;
  }
  if (!is_like_a_name(text)) return text;
  std::error_code error;
  if (fs::exists(text, error) && !fs::is_directory(text, error)) {
    if (!quiet) Progress().message(fmt::format("{} {}: using the file of this name", flag, text));
    return text;
  }
  const bool is_known = std::ranges::any_of(
      published_weights(), [&](const PublishedWeights& w) { return w.name() == text || w.data() == text; });
  if (!is_known && fs::is_directory(text, error)) return text;
  return fetch_weights(chosen_weights(flag, text, model), fetch_settings(), quiet);
}

}  // namespace saccade
