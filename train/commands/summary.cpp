// saccade summary: prints the costs of a recipe's model.
#include "models/summary.h"

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"
#include "train/config/options.h"
#include "train/config/recipes.h"
#include "train/config/task.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"

namespace saccade {

namespace {

int64_t class_count(const Config& config) {
  if (config.model().num_classes() > 0) return config.model().num_classes();
  const Task& task = task_of(config);
  if (const std::optional<DataSize> size = task.data_size(config)) return size->classes;
  const auto [classes, dataset] = task.usual_classes();
  print_text("The training data was not found, so {} assumed, as in {}.\n",
             count_of(classes, "class is", "classes are"), dataset);
  return classes;
}

// 1234567 -> "1.23 M"
std::string short_number(double x) {
  for (const char* unit : {"", " K", " M", " G"}) {
    if (x < 1000) return fmt::format("{:.{}f}{}", x, *unit && x < 100 ? 2 : 0, unit);
    x /= 1000;
  }
  return fmt::format("{:.2f} T", x);
}

std::string mebibytes(int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

void print_table(const ModelSummary& summary) {
  constexpr int kMaxDepth = 4;  // the levels below are single layers
  auto print_row = [](const auto&... cells) { print_line("{:<58} {:>12} {:>10} {:>12}", cells...); };
  print_row("module", "parameters", "MACs", "activations");
  for (const ModuleCost& m : summary.modules) {
    if (m.depth == 0 || m.depth > kMaxDepth) continue;
    print_row(m.name + " (" + m.type + ")", m.parameters, short_number(static_cast<double>(m.macs)),
              mebibytes(m.activation_bytes));
  }
  print_row("total", summary.parameters, short_number(static_cast<double>(summary.macs)),
            mebibytes(summary.activation_bytes));
}

}  // namespace

int run_summary(const SummaryArguments& arguments) {
  check_outputs({{"--json", arguments.json}}, {{"--config", arguments.config}});
  const NamedFile json(arguments.json);
  std::vector<std::string> notes;
  Config config = chosen_recipe(arguments.config, arguments.model, {}, arguments.set, notes);
  for (const std::string& note : notes) print_line(note);
  validate_config(config);
  config = resolve_config(config);
  for (const config::Split* split : {&config.data().train(), &config.data().val()})
    check_outputs({{"--json", arguments.json}}, {{"the annotations", split->annotations()}});
  const auto [height, width] = eval_size(config, arguments.height, arguments.width);

  const int64_t classes = class_count(config);
  std::shared_ptr<Module> model = build_model(config, classes);
  model->initialize(config.seed());
  const ModelSummary summary = task_of(config).summarize(*model, height, width);
  print_table(summary);
  print_text(
      "\n{} parameters, {} of them trained, {} MACs and {} of activations for one image of {} x {} pixels\n",
      summary.parameters, summary.trainable, summary.macs, mebibytes(summary.activation_bytes), height,
      width);
  json.write(fmt::format("{{\"parameters\": {}, \"trainable\": {}, \"macs\": {}}}\n", summary.parameters,
                         summary.trainable, summary.macs));
  return 0;
}

}  // namespace saccade
