// saccade summary: what a recipe's model costs.
#include "models/summary.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/formats/file.h"
#include "core/formats/output_file.h"
#include "core/tensor/error.h"
#include "data/formats/coco_dataset.h"
#include "data/formats/image_folder.h"
#include "models/build.h"
#include "train/commands/commands.h"
#include "train/config/config.h"
#include "train/config/options.h"

namespace saccade {

namespace {

// Of the official models: the largest category id of COCO and one more; ImageNet's classes.
constexpr int64_t kCocoClasses = 91, kImageNetClasses = 1000;

int64_t class_count(const Config& config) {
  if (config.model().num_classes() > 0) return config.model().num_classes();
  if (is_classifier(config)) {
    const std::string& folder = config.data().train().images();
    if (!folder.empty() && std::filesystem::exists(folder))
      return static_cast<int64_t>(ImageFolder::load(folder).class_names().size());
    fmt::print("The training images are not at hand: {} classes are assumed, as in ImageNet.\n",
               kImageNetClasses);
    return kImageNetClasses;
  }
  const std::string& annotations = config.data().train().annotations();
  if (!annotations.empty() && std::filesystem::exists(annotations))
    return CocoDataset::load(annotations, "", label_scheme(config)).num_classes();
  fmt::print("The training annotations are not at hand: {} classes are assumed, as in COCO.\n", kCocoClasses);
  return kCocoClasses;
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
  constexpr int kMaxDepth = 4;  // below are the single layers
  constexpr const char* kRow = "{:<58} {:>12} {:>10} {:>12}\n";
  fmt::print(fmt::runtime(kRow), "module", "parameters", "MACs", "activations");
  for (const ModuleCost& m : summary.modules) {
    if (m.depth == 0 || m.depth > kMaxDepth) continue;
    std::string local = m.name.substr(m.name.rfind('.') == std::string::npos ? 0 : m.name.rfind('.') + 1);
    std::string label = std::string(static_cast<size_t>(m.depth - 1) * 2, ' ') + local + " (" + m.type + ")";
    fmt::print(fmt::runtime(kRow), label, m.parameters, short_number(static_cast<double>(m.macs)),
               mebibytes(m.activation_bytes));
  }
  fmt::print(fmt::runtime(kRow), "total", summary.parameters, short_number(static_cast<double>(summary.macs)),
             mebibytes(summary.activation_bytes));
}

}  // namespace

int run_summary(const SummaryArguments& arguments) {
  check_output_file(arguments.json);
  Config config = load_config(arguments.config);
  for (const std::string& set : arguments.set) apply_set(config, set);
  validate_config(config);
  const config::Data& data = config.data();
  bool fixed = data.val_height() > 0;
  int64_t height = arguments.height, width = arguments.width;
  if (height <= 0) height = fixed ? data.val_height() : data.val_short_side();
  if (width <= 0) width = fixed ? data.val_width() : data.val_long_side();

  const int64_t classes = class_count(config);
  auto summary_of = [&](auto model) {
    model->initialize(config.seed());
    return summarize(*model, height, width);
  };
  ModelSummary summary = is_classifier(config)
                             ? summary_of(build_classifier(model_args(config), classes))
                             : summary_of(build_detector(model_args(config), logit_columns(config, classes)));
  print_table(summary);
  fmt::print(
      "\n{} parameters, {} of them trained, {} MACs and {} of activations for one image of {} x {} pixels\n",
      summary.parameters, summary.trainable, summary.macs, mebibytes(summary.activation_bytes), height,
      width);
  if (!arguments.json.empty())
    write_file(arguments.json,
               std::string_view(fmt::format("{{\"parameters\": {}, \"trainable\": {}, \"macs\": {}}}\n",
                                            summary.parameters, summary.trainable, summary.macs)));
  return 0;
}

}  // namespace saccade
