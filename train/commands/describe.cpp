// saccade describe LAYER: prints what a registered layer is, from its registration and from the arguments
// that it reads. saccade describe config: prints the fields of the configuration, from their schema; saccade
// describe models: the recipes.
#include <algorithm>

#include "core/files/nearest.h"
#include "core/tensor/error.h"
#include "layers/attention.h"
#include "train/commands/commands.h"
#include "train/config/recipes.h"
#include "train/config/schema/rules.h"
#include "train/logs/print.h"
#include "train/weights/catalogue.h"
#include "train/weights/http.h"

namespace saccade {

namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;  // names, each with a line of text

void print_rows(const Rows& rows) {
  size_t width = 0;
  for (const auto& [name, text] : rows) width = std::max(width, name.size());
  for (const auto& [name, text] : rows) print_text("  {:<{}}  {}\n", name, width, text);
}

void list_layers() {
  Rows rows;
  for (const std::string& name : attention_layers().names())
    rows.emplace_back(name, attention_layers().find(name).summary);
  print_text("Attention layers (saccade describe NAME):\n");
  print_rows(rows);
  print_text("and: models, config\n");
}

void list_recipes() {
  Rows rows;
  for (const Recipe& recipe : recipes()) {
    std::string weights;
    for (const PublishedWeights* w : weights_of_recipe(recipe.name))
      weights += (weights.empty() ? "" : ", ") + w->data();
    rows.emplace_back(recipe.name,
                      recipe.title() + (weights.empty() ? "" : fmt::format(" [weights: {}]", weights)));
  }
  print_text(
      "Recipes (saccade describe NAME prints one, saccade train --model NAME --data FOLDER trains with it):\n");
  print_rows(rows);
  print_text(
      "[weights: DATA]: published weights, which train --init-from DATA fetches; saccade describe NAME and saccade weights list "
      "give details.\n");
}

// Prints the file, followed by comments on published weights for it.
void describe_recipe(const Recipe& recipe) {
  print_text("{}", recipe.text);
  const std::vector<const PublishedWeights*> all = weights_of_recipe(recipe.name);
  if (all.empty()) return;
  print_text("\n# Published weights (saccade train --model {} --init-from DATA fetches them):\n",
             recipe.name);
  for (const PublishedWeights* w : all) {
    const std::string metric = metric_text(*w);
    const bool is_whole = w->sha256().size() == 64;
    print_text("# {}: {}, {}{}, licence {}, {}\n#   {}\n", w->data(), w->name(),
               metric.empty() ? "" : metric + ", ", size_text(*w),
               w->has_licence() ? w->licence() : "not stated",
               !w->has_sha256() ? "its SHA-256 is recorded at the first fetch"
                                : fmt::format("SHA-256 {}{}", w->sha256(), is_whole ? "" : "..."),
               without_passwords(w->url()));
  }
}

void describe_layer(const AttentionSpec& spec) {
  AttentionShape shape;
  shape.levels = 4;
  Args args(spec.name);
  auto layer = spec.make(shape, args);
  std::string file = spec.file;
  size_t root = file.rfind("layers/attention");
  if (root != std::string::npos) file = file.substr(root);
  print_text("{}\n  {}\n\n", spec.name, spec.summary);
  print_text("  shapes      {}\n", spec.shapes);
  print_text("  complexity  {}\n", spec.complexity);
  print_text("  parameters  {} (C = {}, {} heads, L = {} levels)\n", layer->parameter_count(), shape.dim,
             shape.heads, shape.levels);
  print_text("  source      {}\n\n", file);
  if (args.readings().empty()) {
    print_text("  It takes no arguments.\n");
  } else {
    print_text("  arguments:\n");
    for (const auto& [key, reading] : args.readings())
      print_text("    {:<12} {:<7} default {}{}\n", key, reading.type, reading.fallback,
                 reading.range.empty() ? "" : ", " + reading.range);
  }
  print_text("\n  in a config, for example:\n    model {{ transformer {{ encoder_attention {{ type: \"{}\"",
             spec.name);
  for (const auto& [key, reading] : args.readings()) {
    if (reading.type == "int" || reading.type == "float" || reading.type == "bool" ||
        reading.type == "string")
      print_text(" arg {{ key: \"{}\" {}: {} }}", key, reading.type, reading.fallback);
  }
  print_text(" }} }} }}\n");
}

}  // namespace

int run_describe(const DescribeArguments& arguments) {
  const std::string& name = arguments.layer;
  const auto& layers = attention_layers().all();
  std::vector<std::string> known = attention_layers().names();
  const auto recipe = std::ranges::find(recipes(), name, &Recipe::name);
  if (name.empty()) {
    list_layers();
  } else if (name == "models") {
    list_recipes();
  } else if (name == "config") {
    print_text("{}", config_tables());
  } else if (recipe != recipes().end()) {
    describe_recipe(*recipe);
  } else if (layers.contains(name)) {
    describe_layer(layers.at(name));
  } else {
    known.insert(known.end(), {"models", "config"});
    for (const Recipe& r : recipes()) known.push_back(r.name);
    fail_input(
        "describe: no layer or recipe \"{}\"{} (saccade describe lists the layers, saccade describe models "
        "the recipes)",
        name, did_you_mean(nearest_name(name, known)));
  }
  return 0;
}

}  // namespace saccade
