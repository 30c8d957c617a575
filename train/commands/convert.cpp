// saccade convert: turns the weights of other projects into ours. A detector, or a classifier with its head,
// becomes a checkpoint that eval and predict take as it is; other weights become a file of plain tensors
// under official names, for --init-from. The result depends only on the values: the same tensors always give
// the same bytes.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "models/backbone.h"
#include "models/not_finite.h"
#include "models/weights/weight_names.h"
#include "models/weights/weight_naming.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/infer_config.h"
#include "train/checkpoints/init_from.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"
#include "train/config/task.h"
#include "train/logs/print.h"
#include "train/weights/fetch.h"

namespace saccade {

namespace {

constexpr const char* kKnownModels =
    "DETR, Deformable DETR, DINO, RT-DETR, D-FINE, LW-DETR, RF-DETR, RetinaNet, Faster, Mask or Cascade Mask "
    "R-CNN, semantic FPN, UperNet or a backbone (docs/official_checkpoints.md)";

// Whether the output replaces a file.
bool check_files(const ConvertArguments& arguments) {
  namespace fs = std::filesystem;
  if (fs::path(arguments.output).extension() != ".safetensors")
    fail_input("{}: the output is a safetensors file, expected a name that ends in .safetensors",
               arguments.output);
  check_outputs(
      {{"OUT", arguments.output}},
      {{"IN", arguments.input}, {"--config", arguments.config}, {"--annotations", arguments.annotations}});
  return output_target(arguments.output).old.has_value();
}

void print_names(const char* what, const std::vector<std::string>& names) {
  if (!names.empty())
    print_line("{}: {}, the first is {}", what, count_of(std::ssize(names), "tensor", "tensors"),
               names.front());
}

// The mask head of DETR's segmentation models, which a detector does not have.
bool of_mask_head(const std::string& name) {
  return name.starts_with("mask_head.") || name.starts_with("bbox_attention.");
}

// Whether these could be the weights of a backbone, perhaps of another depth: a good part of its names match.
bool fits_a_backbone(const OfficialWeights& weights) {
  for (const auto& [name, spec] : backbones().all()) {
    if (!spec.build_classifier) continue;
    Config config;
    config.mutable_model()->set_type("classifier");
    config.mutable_model()->mutable_backbone()->set_type(name);
    std::set<std::string> known;
    for (const NamedTensor& t : sketch_model(build_args(config), 1)->named_tensors()) known.insert(t.name);
    const auto hits = std::ranges::count_if(weights.tensors, [&](const NamedWeight& w) {
      const bool inside = w.name.starts_with(kOfficialBackbone);
      return known.contains(inside ? w.name.substr(std::string_view(kOfficialBackbone).size()) : w.name);
    });
    if (4 * hits >= std::ssize(weights.tensors)) return true;
  }
  return false;
}

// Whether the file has exactly the tensors of the model.
bool fits(const OfficialWeights& weights, const Config& config) {
  size_t known = 0;
  for (const NamedTensor& t :
       sketch_model(build_args(config), config.model().num_classes())->named_tensors()) {
    const NamedWeight* weight = weights.find(t.name);
    if (weight == nullptr || weight->shape != t.var.shape()) return false;
    ++known;
  }
  return known == weights.tensors.size();
}

// Prints whether the files next to Hugging Face's weights were read.
void tell_files_beside(const std::string& input, const ModelJson& json) {
  const auto folder = std::filesystem::path(input).parent_path();
  if (!json.path.empty())
    print_line(
        "{}: read for what the weights do not show (heads, queries, activations, sampling, class names)",
        json.path);
  const std::string images = (folder / "preprocessor_config.json").string();
  if (std::error_code error; !json.path.empty() && std::filesystem::exists(images, error))
    print_line("{}: not read; the usual sizes and normalisation are used (--set data... changes them)",
               images);
}

// The configuration from --config and --set on top of what the weights imply, and the class names in
// config.json; nothing unless the weights are a detector's.
struct Described {
  Config config;
  std::vector<std::string> labels;
};
std::optional<Described> configuration(const ConvertArguments& arguments, const WeightsFile& file,
                                       const OfficialWeights& weights) {
  std::optional<InferredConfig> inferred;
  if (arguments.config.empty()) {
    Config given;
    for (const std::string& set : arguments.set) apply_set(given, set);
    inferred = infer_config(file, weights, given);
    if (!inferred) return std::nullopt;
    const bool is_backbone = model_types().find(inferred->config.model().type(), "model.type").parts.empty();
    if (is_backbone && arguments.set.empty() && !fits(weights, resolve_config(inferred->config))) {
      print_line("a classifier, but not one of the known models");
      return std::nullopt;
    }
    tell_files_beside(arguments.input, inferred->json);
    for (const std::string& assumption : inferred->assumed)
      print_line("assumed, since the file does not say: {} (--set {}=... changes it)", assumption,
                 assumption.substr(0, assumption.find(':')));
  }
  std::vector<std::string> notes;
  Config config = inferred ? inferred->config : load_config(arguments.config, arguments.set, &notes);
  for (const std::string& note : notes) print_line(note);
  if (inferred)
    for (const std::string& set : arguments.set) apply_set(config, set);
  if (config.model().num_classes() <= 0)
    fail_input("model.num_classes: {}, expected the number of classes (--set model.num_classes=...)",
               config.model().num_classes());
  validate_config(config);
  return Described{config, inferred ? inferred->json.labels : std::vector<std::string>()};
}

// Throws InputError if the file matches a known model but lacks tensors. `few`: only if it lacks just a few.
void refuse_incomplete(const WeightsFile& file, bool few) {
  constexpr size_t kFew = 8;
  const std::optional<NearestModel> nearest = nearest_model(file);
  if (!nearest || nearest->missing.empty()) return;
  if (few && (nearest->others > 0 || nearest->missing.size() > kFew)) return;
  fail_input("{}: is {}; expected all of them", file.path(), nearest->text());
}

void write_checkpoint(const ConvertArguments& arguments, const WeightsFile& file,
                      const OfficialWeights& weights, const Described& described) {
  Config config = described.config;
  std::vector<std::string> notes;
  const Classes classes =
      task_of(config).classes_of_weights(config, described.labels, arguments.annotations, notes);
  for (const std::string& note : notes) print_line(note);
  config = resolve_config(config);
  std::shared_ptr<Module> model = build_model(config, config.model().num_classes());
  InitReport report =
      fill_model(file, weights, *model,
                 {.other_head = "expected the same number of classes (--set model.num_classes, --config)"});
  std::vector<std::string> unknown;
  std::copy_if(report.skipped.begin(), report.skipped.end(), std::back_inserter(unknown),
               [](const std::string& name) { return !of_mask_head(name); });
  constexpr const char* kHint = "(--set model... or --config describe the model)";
  if (!report.missing.empty())
    fail_input("{}: {} not in the file, the first is \"{}\" {}", file.path(),
               count_of(std::ssize(report.missing), "tensor of the model is", "tensors of the model are"),
               report.missing[0], kHint);
  if (!unknown.empty())
    fail_input("{}: {} not belong to the model, the first is \"{}\" {}", file.path(),
               count_of(std::ssize(unknown), "tensor does", "tensors do"), unknown[0], kHint);
  if (unknown.size() < report.skipped.size()) print_line("the mask head is left out");
  check_weights(*model, file.path());
  print_names("positions of another image size, resized", report.resized);
  print_names("queries beyond those of the model, left out", report.cut_queries);
  CheckpointInfo info;
  info.config = config_text(config);
  info.class_names = classes.names;
  info.category_ids = classes.ids;
  info.seed = config.seed();
  save_checkpoint(arguments.output, *model, info);
  print_line("{}: {} with {}, {}, {}; eval and predict take it as it is", arguments.output,
             config.model().type(), count_of(config.model().num_classes(), "class", "classes"),
             count_of(std::ssize(model->named_tensors()), "tensor", "tensors"),
             count_of(model->parameter_count(), "parameter", "parameters"));
}

void write_plain(const ConvertArguments& arguments, const WeightsFile& file, const OfficialWeights& weights) {
  if (!arguments.annotations.empty() || !arguments.set.empty())
    fail_input("{}: not a known detector or classifier, so --set and --annotations have no meaning",
               file.path());
  const bool ours = file.metadata().contains("saccade.config");
  if (!ours) refuse_incomplete(file, false);
  if (!ours && !fits_a_backbone(weights))
    fail_input(
        "{}: the names of its tensors belong to no model of this program (the first is \"{}\"), so it cannot be "
        "used; expected weights of {}",
        file.path(), weights.tensors.empty() ? "" : printable(weights.tensors.front().name), kKnownModels);
  NamedValues tensors;
  int64_t values = 0;
  for (const NamedWeight& w : weights.tensors) {
    tensors.emplace_back(w.name, read_weight(file, w));
    if (!is_finite(tensors.back().second))
      fail_input("{}: its tensor \"{}\" holds numbers that are not finite", file.path(),
                 printable(w.parts[0]));
    values += tensors.back().second.numel();
  }
  std::map<std::string, std::string> metadata = file.metadata();
  metadata.emplace("format", "pt");
  write_safetensors(arguments.output, tensors, metadata);
  print_line("{}: {} with {}, {}", arguments.output, count_of(std::ssize(tensors), "tensor", "tensors"),
             count_of(values, "value", "values"),
             ours ? "still a checkpoint" : "neither a detector nor a class head: for train --init-from");
}

}  // namespace

int run_convert(const ConvertArguments& given) {
  ConvertArguments arguments = given;
  const bool replaces = check_files(arguments);
  arguments.input = weights_file("IN", given.input, "", false);
  if (arguments.input != given.input) check_files(arguments);
  std::unique_ptr<WeightsFile> file = open_weights(arguments.input, arguments.key);
  if (file->entries().empty()) fail_input("{}: holds no tensors", arguments.input);
  bool ours = file->metadata().contains("saccade.config");
  if (ours && (!arguments.config.empty() || !arguments.set.empty() || !arguments.annotations.empty()))
    fail_input(
        "{}: is a saccade checkpoint with its own configuration, expected no --config, --set or "
        "--annotations",
        arguments.input);
  OfficialWeights weights = official_weights(*file);
  print_line("{}: {}, {} names{}", arguments.input,
             count_of(std::ssize(file->entries()), "tensor", "tensors"), weights.naming,
             file->section().empty() ? "" : ", under \"" + file->section() + "\"");
  print_names("left out, not learned", weights.ignored);
  if (!weights.chosen.empty()) print_line("{}: {}", arguments.input, weights.chosen);
  if (const std::string foreign = ours ? "" : foreign_model(*file); !foreign.empty())
    fail_input("{}: {}{}", arguments.input, foreign,
               foreign.find("expected") == std::string::npos
                   ? fmt::format("; expected weights of {}", kKnownModels)
                   : "");
  file->verify();
  std::optional<Described> described;
  try {
    if (!ours) described = configuration(arguments, *file, weights);
    if (described) write_checkpoint(arguments, *file, weights, *described);
  } catch (const InputError&) {
    // If tensors are missing, the remaining ones may seem to contradict each other.
    if (arguments.config.empty() && arguments.set.empty()) refuse_incomplete(*file, true);
    throw;
  }
  if (!described) write_plain(arguments, *file, weights);
  if (replaces) print_line("{}: replaces an existing file", arguments.output);
  return 0;
}

}  // namespace saccade
