// saccade describe LAYER: what a registered layer is, read from its registration and from the arguments it
// asks for. saccade describe config: the fields of the configuration, from their schema.
#include <fmt/ranges.h>

#include <cstdio>

#include "core/tensor/error.h"
#include "layers/attention.h"
#include "train/commands/commands.h"
#include "train/config/nearest.h"
#include "train/config/rules.h"

namespace saccade {

namespace {

void list_layers() {
  size_t width = 0;
  for (const std::string& name : attention_layers().names()) width = std::max(width, name.size());
  fmt::print("Attention layers (saccade describe NAME):\n");
  for (const std::string& name : attention_layers().names())
    fmt::print("  {:<{}}  {}\n", name, width, attention_layers().find(name).summary);
}

void describe_layer(const AttentionSpec& spec) {
  AttentionShape shape;
  shape.levels = 4;
  Args args(spec.name);
  auto layer = spec.make(shape, args);
  std::string file = spec.file;
  size_t root = file.rfind("layers/attention");
  if (root != std::string::npos) file = file.substr(root);
  fmt::print("{}\n  {}\n\n", spec.name, spec.summary);
  fmt::print("  shapes      {}\n", spec.shapes);
  fmt::print("  complexity  {}\n", spec.complexity);
  fmt::print("  parameters  {} (C = {}, {} heads, L = {} levels)\n", layer->parameter_count(), shape.dim,
             shape.heads, shape.levels);
  fmt::print("  source      {}\n\n", file);
  if (args.readings().empty()) {
    fmt::print("  It takes no arguments.\n");
  } else {
    fmt::print("  arguments:\n");
    for (const auto& [key, reading] : args.readings())
      fmt::print("    {:<12} {:<7} default {}{}\n", key, reading.type, reading.fallback,
                 reading.range.empty() ? "" : ", " + reading.range);
  }
  fmt::print("\n  in a config, for example:\n    model {{ transformer {{ encoder_attention {{ type: \"{}\"",
             spec.name);
  for (const auto& [key, reading] : args.readings()) {
    if (reading.type == "int" || reading.type == "float" || reading.type == "bool" ||
        reading.type == "string")
      fmt::print(" arg {{ key: \"{}\" {}: {} }}", key, reading.type, reading.fallback);
  }
  fmt::print(" }} }} }}\n");
}

}  // namespace

int run_describe(const DescribeArguments& arguments) {
  std::vector<std::string> names = attention_layers().names();
  if (arguments.layer.empty()) {
    list_layers();
    return 0;
  }
  if (arguments.layer == "config") {
    fmt::print("{}", config_tables());
    return 0;
  }
  if (std::find(names.begin(), names.end(), arguments.layer) == names.end())
    fail_input("describe: no layer \"{}\", did you mean \"{}\"? The known ones are {}", arguments.layer,
               nearest_name(arguments.layer, names), fmt::join(names, ", "));
  describe_layer(attention_layers().find(arguments.layer));
  return 0;
}

}  // namespace saccade
