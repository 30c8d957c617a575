#include "train/commands/report_runs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/images/image.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/load_model.h"
#include "train/config/task.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"
#include "train/report/run_comparison.h"
#include "train/report/run_metrics.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// The number of colours.
constexpr size_t kMaxRuns = 8;

// If the configuration leaves the number of classes to the data, it is taken from a checkpoint.
std::optional<int64_t> parameters_of(const std::string& run, const Config& config) {
  int64_t classes = config.model().num_classes();
  for (const char* name : {"best", "last"}) {
    const std::string path = fmt::format("{}/checkpoints/{}.safetensors", run, name);
    if (classes > 0 || !fs::exists(path)) continue;
    classes = std::ssize(read_checkpoint_info(SafetensorsReader(path)).class_names);
  }
  if (classes <= 0) return std::nullopt;
  return build_model(config, classes)->parameter_count();
}

ComparedRun compared(const std::string& name) {
  ComparedRun run{.name = name,
                  .metrics = read_run_metrics(name + "/metrics.jsonl"),
                  .config = config_of_run(name),
                  .charts = {},
                  .main_metric = {},
                  .metric_names = {}};
  const Task& task = task_of(run.config);
  run.charts = task.charts();
  run.main_metric = main_metric_of(run.config);
  run.metric_names = task.primary_metrics(run.config);
  std::erase(run.metric_names, "loss");
  run.parameters = parameters_of(name, run.config);
  return run;
}

void check_different(const std::vector<std::string>& runs) {
  if (runs.size() > kMaxRuns)
    fail_input("saccade report: {} runs, expected at most {} on one page", runs.size(), kMaxRuns);
  std::error_code error;
  for (size_t i = 0; i < runs.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (fs::equivalent(runs[i], runs[k], error))
        fail_input("{}: is the same run as {}, expected different ones", runs[i], runs[k]);
}

}  // namespace

void check_run_folder(const std::string& run) {
  if (std::error_code error; !fs::exists(run + "/config.textproto", error))
    fail_input("{}: is not a run folder, as it has no config.textproto", run);
}

Config config_of_run(const std::string& run) {
  const Config config = load_config(run + "/config.textproto");
  validate_config(config);
  return resolve_config(config);
}

std::string main_metric_of(const Config& config) {
  if (!config.train().best_metric().empty()) return config.train().best_metric();
  std::vector<std::string> metric_names = task_of(config).primary_metrics(config);
  std::erase(metric_names, "loss");
  return metric_names.empty() ? "" : metric_names.front();
}

std::string evaluation_flags(const ReportArguments& arguments) {
  std::string flags = given_flags({{"--json", !arguments.json.empty()},
                                   {"--detections", !arguments.detections.empty()},
                                   {"--annotations", !arguments.annotations.empty()},
                                   {"--images", !arguments.images.empty()},
                                   {"--data", !arguments.data.empty()},
                                   {"--split", arguments.split != ReportArguments().split},
                                   {"--classes", !arguments.classes.empty()},
                                   {"--set", !arguments.set.empty()},
                                   {"--threshold", arguments.threshold.has_value()},
                                   {"--batch-size", arguments.batch_size > 0},
                                   {"--allow-outside", arguments.allow_outside}});
  for (const std::string& more :
       {arguments.metric_options.given_flags(), arguments.label_errors.given_flags()})
    if (!more.empty()) flags += (flags.empty() ? "" : ", ") + more;
  return flags;
}

NamedFile page_file(const std::string& path) { return NamedFile(path, {".html", ".htm"}); }

void write_page(const NamedFile& file, const std::string& path, const Page& page) {
  const std::string text = page.finish("Written by saccade " SACCADE_VERSION ".");
  file.write(text);
  print_line("{}: a page of {} KB", path, text.size() / 1000);
}

int compare_runs(const ReportArguments& arguments) {
  std::vector<std::string> names{arguments.run};
  names.insert(names.end(), arguments.others.begin(), arguments.others.end());
  const std::string flags = arguments.checkpoint.empty() ? evaluation_flags(arguments) : "--checkpoint";
  if (!flags.empty())
    fail_input(
        "{}: several runs are compared by what they have logged, without an evaluation; expected one RUN",
        flags);
  check_different(names);
  const std::string output = arguments.output.empty() ? "comparison.html" : arguments.output;
  for (const std::string& path : {output, arguments.csv})
    if (has_image_extension(path))
      fail_input("{}: is the name of an image, expected one that ends in .html or .csv", path);
  std::vector<ComparedRun> runs;
  for (const std::string& name : names) {
    check_run_folder(name);
    for (const char* file : {"config.textproto", "metrics.jsonl"})
      check_outputs({{"--output", output}, {"--csv", arguments.csv}},
                    {{"a file of a run", fmt::format("{}/{}", name, file)}});
    runs.push_back(compared(name));
    for (const std::string& remark : runs.back().metrics.remarks) print_line(remark);
  }
  const NamedFile file = page_file(output), csv(arguments.csv, {".csv"});
  std::vector<std::string> kinds;
  std::vector<NamedRun> logged;
  for (const ComparedRun& run : runs) {
    logged.push_back({run.name, run.metrics});
    if (const std::string& kind = task_name(run.config); std::ranges::find(kinds, kind) == kinds.end())
      kinds.push_back(kind);
  }
  const std::string different =
      kinds.size() > 1
          ? fmt::format(
                "The runs are of different tasks ({}): they share the loss, but neither its scale "
                "nor the evaluation metrics.",
                fmt::join(kinds, ", "))
          : "";
  if (!different.empty()) print_line("note: {}", different);
  Page page(fmt::format("{} runs", runs.size()), html("{}.", fmt::format("{}", fmt::join(names, ", "))));
  if (!different.empty()) page.add(note(different));
  add_comparison(page, runs);
  csv.write(runs_csv(logged));
  write_page(file, output, page);
  return 0;
}

}  // namespace saccade
