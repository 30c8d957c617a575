// saccade report: writes a page about a run, from its log and an evaluation of its best checkpoint.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "core/files/output_file.h"
#include "core/runtime/cpu/thread_team.h"
#include "core/tensor/error.h"
#include "data/formats/checks/kept_labels.h"
#include "data/formats/data_format.h"
#include "data/images/image.h"
#include "data/loading/named_images.h"
#include "train/checkpoints/checkpoint.h"
#include "train/commands/commands.h"
#include "train/commands/data/sources.h"
#include "train/commands/report_runs.h"
#include "train/config/options.h"
#include "train/config/task.h"
#include "train/inference/device_choice.h"
#include "train/inference/evaluation_data.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"
#include "train/report/evaluation_sections.h"
#include "train/report/label_error_files.h"
#include "train/report/run_metrics.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

std::string run_checkpoint(const std::string& run, const char* name) {
  return fmt::format("{}/checkpoints/{}.safetensors", run, name);
}

// The given checkpoint, else the best of the run, else the last; empty if there is none.
std::string chosen_checkpoint(const ReportArguments& arguments) {
  if (!arguments.checkpoint.empty()) return arguments.checkpoint;
  for (const char* name : {"best", "last"})
    if (std::string path = run_checkpoint(arguments.run, name); fs::exists(path)) return path;
  return "";
}

// The files and folders of a set, or of the sets that it is merged from.
std::vector<std::string> places_of(const DataPaths& paths) {
  std::vector<std::string> places;
  for (const DataPaths& set : sets_of(paths)) places.insert(places.end(), {set.annotations, set.images});
  return places;
}

// The validation set: the run's, with the given paths in place of its own.
std::optional<DataPaths> validation_paths(const ReportArguments& arguments, const LoadedModel& model) {
  std::optional<DataPaths> paths;
  if (!arguments.data.empty()) {
    EvalArguments eval{.annotations = arguments.annotations, .images = arguments.images};
    eval.data = arguments.data;
    eval.split = arguments.split;
    paths = eval_paths(eval, model);
  } else {
    const bool is_given = !arguments.images.empty();
    // The recipe's folder may be gone if the paths are given.
    if (!is_given || model.config.data().folder().empty()) paths = data_splits(model.config).val;
    if (is_given && !paths) set_needs(paths.emplace(), model.config);
    if (!arguments.annotations.empty()) {
      if (!paths)
        fail_input("--images: not given, expected the folder of the images of {}", arguments.annotations);
      paths->sets.clear();
      paths->annotations = arguments.annotations;
      paths->format = "";
    }
    if (is_given && paths && !paths->sets.empty())
      fail_input(
          "--images: {} alone, but the run was evaluated on {} data sets; expected --annotations as well, or --data",
          arguments.images, paths->sets.size());
    if (is_given) paths->images = arguments.images;
    if (!paths) return paths;
    for (const std::string& path : places_of(*paths))
      if (std::error_code error; !path.empty() && !fs::exists(path, error))
        fail_input(
            "{}: no such file or folder, though the run was evaluated on it; expected --data, or --annotations and --images, "
            "to say where it is now, or --curves-only",
            path);
    if (has_several_sets(model.config)) paths = known_by_names(*paths);
    paths->categories = categories_of(model);
    paths->choice = class_choice(model.config);
  }
  // As for eval: the run, and what its configuration allows, may be a stranger's, and the page shows
  // pictures.
  if (paths->allow_outside && !arguments.allow_outside)
    print_line(
        "data.allow_outside of the run does not count here: images outside their folder need --allow-outside");
  paths->allow_outside = arguments.allow_outside;
  return paths;
}

// The run's configuration says where the data are, not that of a checkpoint from before they moved.
void take_places(config::Data& data, const config::Data& run) {
  data.set_folder(run.folder());
  *data.mutable_more_folders() = run.more_folders();
  *data.mutable_more_train() = run.more_train();
  *data.mutable_more_val() = run.more_val();
  data.clear_train();
  data.clear_val();
  if (run.has_train()) *data.mutable_train() = run.train();
  if (run.has_val()) *data.mutable_val() = run.val();
}

// Detects a run whose relative paths lead elsewhere than where it was trained, or whose data have changed:
// its metrics would be of other images. Returns "" if its training set is that of the checkpoint, or if it is
// not there, which does not affect the metrics.
std::string remark_on_other_images(const Config& run, const std::string& checkpoint) {
  const std::string trained = read_checkpoint_info(SafetensorsReader(checkpoint)).images;
  if (trained.empty() || run.data().bad_images() == config::skip) return "";
  try {
    std::optional<DataPaths> training = data_splits(run).train;
    if (!training) return "";
    training->look_at_images = false;
    const std::string now = name_of_images(*open_dataset(*training, label_scheme(run)));
    if (now == trained) return "";
    return fmt::format(
        "warning: {}: its images are not those that the run was trained on ({}; now {}): the metrics may be of other images, too",
        training->name(), trained, now);
  } catch (const InputError&) {
    return "";
  }
}

std::string trained_on(const config::Data& data) {
  std::string places = data.folder().empty() ? data.train().images() : data.folder();
  for (const std::string& folder : data.more_folders()) places += " + " + folder;
  for (const config::Split& split : data.more_train()) places += " + " + split.images();
  return places;
}

void add_facts(Page& page, const std::string& checkpoint, const Config& config, Device device) {
  page.section("Run");
  std::string processor = "unknown";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) {
      processor = line.substr(std::min(line.size(), line.find(':') + 2));
      break;
    }
  std::vector<std::vector<Html>> rows;
  auto add = [&](const char* name, const std::string& value) { rows.push_back(cells(name, value)); };
  if (!checkpoint.empty()) {
    const SafetensorsReader file(checkpoint);
    const CheckpointInfo saved = read_checkpoint_info(file);
    add("Checkpoint", checkpoint);
    add("Written after step", count_text(saved.step));
    add("Classes", count_text(std::ssize(saved.class_names)));
  }
  add("Model", config.model().type());
  add("Seed", std::to_string(config.seed()));
  add("Version", "saccade " SACCADE_VERSION);
  add("This page was made on",
      fmt::format("{}, {} threads{}", processor, thread_count(), device == Device::kCpu ? "" : ", a GPU"));
  page.add(html_table({{"", false}, {"", false}}, rows));
  page.add(details("The whole configuration", preformatted(config_text(config))));
}

// Refuses outputs that would replace something that the report is made of.
void check_report_outputs(const ReportArguments& arguments, const std::string& output,
                          const std::string& checkpoint) {
  for (const std::string& path : {output, arguments.json, arguments.csv})
    if (has_image_extension(path))
      fail_input("{}: is the name of an image, expected one that ends in .html, .json or .csv", path);
  check_outputs({{"--output", output}, {"--json", arguments.json}, {"--csv", arguments.csv}},
                {{"the checkpoint", checkpoint},
                 {"the best checkpoint of the run", run_checkpoint(arguments.run, "best")},
                 {"the last checkpoint of the run", run_checkpoint(arguments.run, "last")},
                 {"--annotations", arguments.annotations},
                 {"--detections", arguments.detections},
                 {"the configuration of the run", arguments.run + "/config.textproto"},
                 {"the metrics of the run", arguments.run + "/metrics.jsonl"}});
}

}  // namespace

int run_report(const ReportArguments& arguments) {
  if (!arguments.others.empty()) return compare_runs(arguments);
  const std::string output = arguments.output.empty() ? arguments.run + "/report.html" : arguments.output;
  check_run_folder(arguments.run);
  if (arguments.output.empty()) refuse_link(output);
  const std::string checkpoint = chosen_checkpoint(arguments);
  const std::unique_ptr<MadeFolder> label_errors = make_label_error_folder(arguments.label_errors);
  check_report_outputs(arguments, output, checkpoint);
  LoadedModel model;
  const DeviceChoice choice = choose_device(arguments.device);
  model.config = config_of_run(arguments.run);
  const Config run = model.config;
  const RunMetrics metrics = read_run_metrics(arguments.run + "/metrics.jsonl");
  if (arguments.curves_only)
    if (const std::string flags = evaluation_flags(arguments); !flags.empty())
      fail_input("--curves-only: evaluates nothing, expected no {}", flags);
  if (!arguments.detections.empty() && arguments.batch_size > 0)
    fail_input("--batch-size: no image is evaluated with --detections, expected only one of the two flags");
  for (const std::string& remark : metrics.remarks) print_line(remark);
  const bool evaluates = !arguments.curves_only && (!arguments.detections.empty() || !checkpoint.empty());
  if (evaluates && arguments.detections.empty()) {
    model = load_trained_model(checkpoint, choice.device);
    if (!choice.notice.empty()) print_line(choice.notice);
  } else if (evaluates && !checkpoint.empty()) {
    // Only the classes are needed: the detections use them.
    const CheckpointInfo saved = read_checkpoint_info(SafetensorsReader(checkpoint));
    model.class_names = saved.class_names;
    model.category_ids = saved.category_ids;
  }
  take_places(*model.config.mutable_data(), run.data());
  set_classes(model.config, arguments.set);
  const auto paths = evaluates ? validation_paths(arguments, model) : std::nullopt;
  if (paths)
    check_outputs_of_set({{"--output", output}, {"--json", arguments.json}, {"--csv", arguments.csv}},
                         *paths);
  const bool is_of_run = arguments.checkpoint.empty() && arguments.data.empty() && arguments.images.empty() &&
                         arguments.annotations.empty();
  if (paths && is_of_run && !checkpoint.empty())
    if (const std::string remark = remark_on_other_images(run, checkpoint); !remark.empty())
      print_line(remark);
  const NamedFile file = page_file(output), json(arguments.json), csv(arguments.csv, {".csv"});
  find_as_many_as_count(model.config, arguments.metric_options);
  Page page("Run " + arguments.run,
            html("{}, trained on {} for {} steps.", model.config.model().type(),
                 trained_on(model.config.data()), count_text(std::llround(metrics.step))));
  add_run_section(page, metrics, task_of(run).charts(), main_metric_of(run));
  std::string json_text;
  if (paths) {
    const ReportOptions options{.paths = *paths,
                                .threshold = arguments.threshold,
                                .detections = arguments.detections,
                                .source = arguments.detections.empty() ? checkpoint : arguments.detections,
                                .checkpoint = checkpoint,
                                .model = model,
                                .classes = arguments.classes,
                                .evaluation = evaluator_options(model.config, arguments.batch_size),
                                .metric_options = arguments.metric_options,
                                .label_errors = arguments.label_errors};
    const auto add_sections = [&] { json_text = task_of(model.config).report(page, options); };
    if (arguments.detections.empty())
      with_model_of(checkpoint, eval_size(model.config), "--batch-size", add_sections);
    else
      add_sections();
  } else if (evaluates) {
    page.add(note("The run has no validation set, so nothing is evaluated."));
  }
  for (const auto& [flag, path] :
       {std::pair{"--json", &arguments.json}, std::pair{"--label-errors", &arguments.label_errors.folder}})
    if (!path->empty() && json_text.empty())
      fail_input("{}: {}: nothing was evaluated, so there {}", flag, *path,
                 path == &arguments.json ? "are no metrics" : "is nothing that contradicts a label");
  json.write(json_text);
  const NamedRun logged{arguments.run, metrics};
  csv.write(runs_csv({&logged, 1}));
  add_facts(page, checkpoint, model.config, choice.device);
  write_page(file, output, page);
  return 0;
}

}  // namespace saccade
