// saccade export: writes a checkpoint as an ONNX file (docs/onnx.md).
#include <string>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "train/commands/commands.h"

#ifdef SACCADE_ONNX
#include <fmt/ranges.h>
#include <unistd.h>

#include <map>

#include "core/files/descriptors.h"
#include "core/files/output_file.h"
#include "core/formats/json.h"
#include "core/formats/safetensors.h"
#include "core/tensor/philox.h"
#include "data/images/image.h"
#include "train/checkpoints/load_model.h"
#include "train/config/options.h"
#include "train/config/quick_flags.h"
#include "train/config/recipes.h"
#include "train/config/task.h"
#include "train/export/export.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"
#include "train/tasks/onnx_outputs.h"

namespace saccade {
namespace {

// Keeps lines out of a file that goes to the standard output.
void print_unmixed(const ExportArguments& arguments, const std::string& line) {
  if (own_descriptor(arguments.output) == STDOUT_FILENO || own_descriptor(arguments.sample) == STDOUT_FILENO)
    print_note(line);
  else
    print_line(line);
}

// Moves every tensor slightly from its initial values, so that those that start at zero take part too.
// Doubles variances: untrained residual branches add up to activations that saturate every softmax after
// them.
void randomize(Module& model, uint64_t seed) {
  constexpr double kNoise = 0.02;
  model.initialize(seed);
  Rng rng(seed);
  for (NamedTensor& t : model.named_tensors()) {
    if (t.var.dtype() != DType::kF32) continue;
    const float scale = t.name.ends_with("running_var") ? 2 : 1;
    float* p = t.var.value().data<float>();
    for (int64_t i = 0; i < t.var.value().numel(); ++i)
      p[i] = scale * p[i] + static_cast<float>(kNoise * rng.normal());
    t.var.value().bump_version();
  }
}

// A recipe's model with random weights shows its speed and size before it is trained.
LoadedModel untrained_model(const ExportArguments& arguments) {
  LoadedModel model;
  std::vector<std::string> notes;
  model.config = load_config(arguments.checkpoint, {}, &notes);
  for (const std::string& edit : size_edits(model.config, arguments.image_size))
    apply_set(model.config, edit);
  for (const std::string& set : arguments.set) apply_set(model.config, set, &notes);
  if (std::string note = note_on_model(model.config); !note.empty()) notes.push_back(std::move(note));
  for (const std::string& note : notes) print_unmixed(arguments, note);
  validate_config(model.config);
  model.config = resolve_config(model.config);
  const Task& task = task_of(model.config);
  const int64_t classes = model.config.model().num_classes() > 0 ? model.config.model().num_classes()
                                                                 : task.usual_classes().count;
  const Classes unnamed = task.unnamed_classes(classes);
  model.class_names = unnamed.names;
  model.category_ids = unnamed.ids;
  model.module = build_model(model.config, classes);
  randomize(*model.module, model.config.seed());
  model.module->set_training(false);
  print_unmixed(arguments, fmt::format("{}: a recipe, exported with {} and random weights",
                                       escaped(arguments.checkpoint), count_of(classes, "class", "classes")));
  return model;
}

template <class T, class Quote>
std::string json_list(const std::vector<T>& values, const Quote& quote) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + quote(value);
  return text + "]";
}

// Describes how images are resized, the most frequent cause of differences between runtimes.
std::string resize_of(const Config& config) {
  const config::Data& data = config.data();
  const std::string filter = data.interpolation() == config::bicubic ? "bicubic with antialiasing (Pillow's)"
                             : data.interpolation() == config::bilinear
                                 ? "bilinear with antialiasing (Pillow's)"
                                 : "bilinear between four pixels, without antialiasing";
  std::string how = data.val_height() == 0 ? "short side and long side bounded, the aspect ratio kept"
                    : data.val_crop_pct() > 0
                        ? fmt::format("short side to the size / {}, then the centre", data.val_crop_pct())
                        : "stretched to the size";
  return fmt::format("{}; {}", how, filter);
}

ExportOptions export_options(const ExportArguments& arguments, const LoadedModel& model) {
  const ImageSize size = eval_size(model.config, arguments.height, arguments.width);
  ExportOptions o{.height = size.height, .width = size.width};
  o.batch = arguments.batch;
  o.input = arguments.input == "unit"    ? OnnxInput::kUnit
            : arguments.input == "bytes" ? OnnxInput::kBytes
                                         : OnnxInput::kNormalized;
  o.normalization = image_normalization(model.config);
  o.version = SACCADE_VERSION;
  o.metadata = {
      {"task", task_name(model.config)},
      {"model", model.config.model().type()},
      {"resize", resize_of(model.config)},
      {"class_names", json_list(model.class_names, [](const std::string& name) { return json_quote(name); })},
      {"category_ids", json_list(model.category_ids, [](int64_t id) { return std::to_string(id); })}};
  return o;
}

// Notes fields that may be set for inference but do not affect the file.
void note_without_effect(const ExportArguments& arguments) {
  constexpr std::pair<const char*, const char*> kFields[] = {
      {"precision", "the file computes in f32"},
      {"eval.batch_size", "--batch says how many images the file takes at a time"}};
  for (const std::string& note : notes_without_data(arguments.set)) print_unmixed(arguments, note);
  for (const std::string& set : arguments.set)
    for (const auto& [field, why] : kFields)
      if (set.starts_with(std::string(field) + "="))
        print_unmixed(arguments, fmt::format("note: --set {}: changes nothing, {}", escaped(set), why));
}

std::string images_at_a_time(const ExportOptions& o) {
  return o.batch == 0 ? "any number" : std::to_string(o.batch);
}

constexpr int64_t kSampleImages = 8;

// Writes data to compare another runtime's results with: noise, and this program's outputs for it.
void write_sample(const std::string& path, const ExportOptions& o, const ModelOutputs& outputs,
                  Module& model) {
  Tensor images = Tensor::empty({kSampleImages, 3, o.height, o.width});
  Rng rng(3);
  for (int64_t i = 0; i < images.numel(); ++i) images.data<float>()[i] = static_cast<float>(rng.normal());
  const Tensor maps = images.permute({0, 2, 3, 1}).contiguous();
  std::map<std::string, std::vector<Tensor>> made;
  {
    ExecutionScope scope;
    execution().grad_enabled = false;
    for (int64_t n = 0; n < kSampleImages; ++n)
      for (auto& [name, tensor] : outputs.run(model, maps.slice(0, n, n + 1)))
        made[name].push_back(tensor.clone());
  }
  std::vector<std::pair<std::string, Tensor>> tensors{{"images", images}};
  for (auto& [name, parts] : made) {
    Shape shape = parts[0].shape();
    shape[0] = kSampleImages;
    Tensor all = Tensor::empty(shape);
    for (size_t n = 0; n < parts.size(); ++n)
      all.slice(0, static_cast<int64_t>(n), static_cast<int64_t>(n) + 1).copy_from(parts[n]);
    tensors.emplace_back(name, all);
  }
  write_safetensors(path, tensors, {});
}

// The output is ONNX, whatever its name says, and a file that it replaces must look like one. Returns the
// lines about files that are replaced.
std::vector<std::string> check_output_names(const ExportArguments& arguments) {
  std::vector<std::string> lines;
  for (const auto& [path, ending] :
       {std::pair{&arguments.output, ".onnx"}, std::pair{&arguments.sample, ".safetensors"}}) {
    if (has_image_extension(*path))
      fail_input("{}: is the name of an image, expected one that ends in {}", *path, ending);
    if (path->empty()) continue;
    const bool is_old = is_old_file(*path);
    const std::string own = lower_extension(*path);
    if (is_old && !path->ends_with(ending))
      fail_input("{}: already exists, and its name does not end in {}; expected another name", *path, ending);
    if (path == &arguments.output && !own.empty() && own != ending)
      fail_input("{}: export writes ONNX, expected a name that ends in {}", *path, ending);
    if (is_old) lines.push_back(fmt::format("{}: replaces an existing file", escaped(*path)));
  }
  return lines;
}

}  // namespace

int run_export(const ExportArguments& arguments) {
  check_outputs({{"OUT", arguments.output}, {"--sample", arguments.sample}},
                {{"CKPT", arguments.checkpoint}});
  const std::vector<std::string> replaced = check_output_names(arguments);
  if (arguments.image_size > 0 && (arguments.height > 0 || arguments.width > 0))
    fail_input("--image-size and {} cannot be combined", arguments.height > 0 ? "--height" : "--width");
  if (arguments.raw_outputs && !arguments.postprocess)
    fail_input("--raw-outputs: has no meaning without --postprocess, as the outputs are then the raw ones");
  const bool recipe = arguments.checkpoint.ends_with(".textproto");
  LoadedModel model = recipe ? untrained_model(arguments)
                             : load_trained_model(arguments.checkpoint, Device::kCpu, "", arguments.set,
                                                  arguments.image_size);
  note_without_effect(arguments);
  for (const std::string& note : model.notes) print_unmixed(arguments, note);
  const ExportOptions options = export_options(arguments, model);
  const auto outputs = onnx_outputs()
                           .find(task_name(model.config))
                           .make(model.config,
                                 {.classes = std::ssize(model.class_names),
                                  .postprocess = arguments.postprocess,
                                  .raw_outputs = arguments.raw_outputs},
                                 *model.module);
  ExportedModel exported;
  // The model runs with 2 and 4 images if the file must accept any number.
  with_model_of(arguments.checkpoint, {options.height, options.width}, "--height, --width, --batch", [&] {
    exported = export_model(*model.module, *outputs, options);
    if (!arguments.sample.empty()) write_sample(arguments.sample, options, *outputs, *model.module);
  });
  write_file(arguments.output, std::string_view(exported.file));
  for (const std::string& line : replaced) print_unmixed(arguments, line);
  print_unmixed(arguments, fmt::format("{}: images {} x {}, {} at a time; {}; {} nodes, {:.1f} MB",
                                       escaped(arguments.output), options.height, options.width,
                                       images_at_a_time(options), fmt::join(exported.outputs, ", "),
                                       exported.nodes, static_cast<double>(exported.file.size()) / 1e6));
  if (const std::string note = outputs->note(); !note.empty()) print_unmixed(arguments, note);
  return 0;
}

}  // namespace saccade
#else

namespace saccade {

int run_export(const ExportArguments&) {
  fail_input("saccade export: this program was built without ONNX; install libonnx-dev and build it again");
}

}  // namespace saccade
#endif
