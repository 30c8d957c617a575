#include "train/weights/catalogue.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "core/files/file.h"
#include "core/files/nearest.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "train/config/recipes.h"
#include "train/config/schema/config_fields.h"
#include "train/config/text.h"
#include "train/logs/print.h"
#include "train/weights/http.h"

namespace saccade {
namespace {

constexpr const char* kCatalogueVariable = "SACCADE_WEIGHTS_CATALOGUE";

bool is_made_of(const std::string& text, std::string_view letters) {
  return !text.empty() && text.find_first_not_of(letters) == std::string::npos;
}

// The name is used as a file name.
bool is_weights_name(const std::string& name) {
  return is_made_of(name, "abcdefghijklmnopqrstuvwxyz0123456789_") && name.size() <= 100;
}

// Whether the text can be printed unescaped.
bool is_plain(const std::string& text) { return escaped(text) == text; }
constexpr const char* kPlain = "expected text of one line without control characters";

std::string fault_of(const PublishedWeights& w) {
  if (!is_weights_name(w.name())) return "expected a name of lower-case letters, digits and _";
  if (!is_weights_name(w.data())) return "data: expected a name of lower-case letters, digits and _";
  const std::string url = lower_case(w.url());
  const bool has_scheme = url.starts_with("https://") || url.starts_with("http://");
  const bool printable_url = std::ranges::all_of(w.url(), [](char c) { return c > ' ' && c < 127; });
  if (!has_scheme || !printable_url || url.size() > 2000)
    return "url: expected an address that begins with https:// or http://";
  constexpr size_t kFewestDigits = 8, kMaxDigits = 64;
  if (w.has_sha256() && (!is_made_of(w.sha256(), "0123456789abcdef") || w.sha256().size() < kFewestDigits ||
                         w.sha256().size() > kMaxDigits))
    return "sha256: expected 64 hexadecimal digits in lower case, or the first 8 or more";
  if (w.has_bytes() && (w.bytes() == 0 || w.bytes() > kWeightsFile.max_bytes))
    return fmt::format("bytes: expected a number from 1 to {}", kWeightsFile.max_bytes);
  if (w.has_value() && !(w.value() >= 0 && w.value() <= 100)) return "value: expected a number from 0 to 100";
  for (const auto& [field, text] :
       {std::pair{"licence", &w.licence()}, std::pair{"metric", &w.metric()}, std::pair{"page", &w.page()}})
    if (!is_plain(*text)) return fmt::format("{}: {}", field, kPlain);
  if (!std::ranges::all_of(w.recipe(), is_plain)) return fmt::format("recipe: {}", kPlain);
  if (w.recipe().empty()) return "recipe: not given, expected the recipes of these weights";
  return "";
}

}  // namespace

const char* own_catalogue() {
  return
#include "train/weights/catalogue.textproto.inc"
      ;
}

std::vector<PublishedWeights> parse_catalogue(const std::string& text, const std::string& name) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  config::WeightsCatalogue catalogue;
  if (!parser.ParseFromString(text, &catalogue))
    fail_input("{}:{}: {}", name, error.line + 1, without_passwords(explain(error, text)));
  std::set<std::string> names;
  std::set<std::pair<std::string, std::string>> of_recipes;
  for (PublishedWeights& w : *catalogue.mutable_weights()) {
    if (w.has_figure()) w.set_value(w.figure());  // the field's old name
    if (const std::string fault = fault_of(w); !fault.empty())
      fail_input("{}: weights \"{}\": {}", name, printable(w.name()), fault);
    if (!names.insert(w.name()).second) fail_input("{}: weights \"{}\": appears twice", name, w.name());
    for (const std::string& recipe : w.recipe())
      if (!of_recipes.emplace(recipe, w.data()).second)
        fail_input("{}: weights \"{}\": an earlier entry has weights of {} on {}", name, w.name(),
                   printable(recipe), w.data());
  }
  return {catalogue.weights().begin(), catalogue.weights().end()};
}

std::string unknown_recipes(const std::vector<PublishedWeights>& all) {
  std::vector<std::string> known;
  for (const Recipe& recipe : recipes()) known.push_back(recipe.name);
  std::string first;
  size_t count = 0;
  for (const PublishedWeights& w : all)
    for (const std::string& recipe : w.recipe())
      if (std::ranges::find(known, recipe) == known.end() && ++count == 1)
        first = fmt::format("weights \"{}\": there is no recipe \"{}\"{}", w.name(), shortened(recipe),
                            did_you_mean(nearest_name(recipe, known)));
  return count > 1 ? fmt::format("{} (and {} more)", first, count - 1) : first;
}

const std::vector<PublishedWeights>& published_weights() {
  static const std::vector<PublishedWeights> all = [] {
    const char* path = std::getenv(kCatalogueVariable);
    if (!path || !*path) return parse_catalogue(own_catalogue(), "catalogue.textproto");
    std::vector<PublishedWeights> own = parse_catalogue(read_text(path, kConfigFile), path);
    if (const std::string text = unknown_recipes(own); !text.empty())
      print_note(fmt::format("note: {}: {}", path, text));
    return own;
  }();
  return all;
}

const PublishedWeights* find_weights(const std::string& name) {
  const auto& all = published_weights();
  const auto it = std::ranges::find(all, name, [](const PublishedWeights& w) { return w.name(); });
  return it == all.end() ? nullptr : &*it;
}

std::vector<const PublishedWeights*> weights_of_recipe(const std::string& recipe) {
  std::vector<const PublishedWeights*> found;
  for (const PublishedWeights& w : published_weights())
    if (std::ranges::find(w.recipe(), recipe) != w.recipe().end()) found.push_back(&w);
  return found;
}

std::string metric_text(const PublishedWeights& weights) {
  return weights.has_value() ? fmt::format("{} {:.1f}", weights.metric(), weights.value()) : "";
}

std::string megabytes(uint64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

std::string size_text(const PublishedWeights& weights) {
  return weights.has_bytes() ? megabytes(weights.bytes()) : "size unknown";
}

}  // namespace saccade
