// saccade describe LAYER: what a registered layer is, read from its registration and from the arguments it
// asks for. saccade describe config: the fields of the configuration, from their schema.
#include <fmt/ranges.h>

#include "core/tensor/error.h"
#include "layers/attention.h"
#include "train/commands/commands.h"
#include "train/config/nearest.h"
#include "train/config/rules.h"
#include "train/logs/print.h"

namespace saccade {

namespace {

void list_layers() {
  size_t width = 0;
  for (const std::string& name : attention_layers().names()) width = std::max(width, name.size());
  print_text("Attention layers (saccade describe NAME):\n");
  for (const std::string& name : attention_layers().names())
    print_text("  {:<{}}  {}\n", name, width, attention_layers().find(name).summary);
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
  std::vector<std::string> names = attention_layers().names();
  if (arguments.layer.empty()) {
    list_layers();
    return 0;
  }
  if (arguments.layer == "config") {
    print_text("{}", config_tables());
    return 0;
  }
  if (std::find(names.begin(), names.end(), arguments.layer) == names.end())
    fail_input("describe: no layer \"{}\", did you mean \"{}\"? The known ones are {}", arguments.layer,
               nearest_name(arguments.layer, names), fmt::join(names, ", "));
  describe_layer(attention_layers().find(arguments.layer));
  return 0;
}

}  // namespace saccade
