#include "train/config/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/runtime/cpu/onednn.h"
#include "core/tensor/error.h"
#include "data/formats/splits.h"
#include "models/build.h"
#include "train/config/schema/config_fields.h"
#include "train/config/task.h"

namespace saccade {

namespace {

AugmentFields named_fields(const Config& config, const config::Augment& augment) {
  AugmentFields fields{.values = {{"val_crop_pct", {0}}}, .complete = true};
  for (const auto* field : fields_of(augment.GetDescriptor()))
    fields.values[field->name()] = numbers_of(augment, field);
  if (config.data().interpolation() == config::bicubic) fields.filter = Filter::kBicubic;
  if (config.data().interpolation() == config::four_pixels) fields.filter = Filter::kFourPixels;
  kernels::ImageNormalization norm = image_normalization(config);
  std::copy(norm.mean.begin(), norm.mean.end(), fields.mean.begin());
  std::copy(norm.std.begin(), norm.std.end(), fields.std.begin());
  return fields;
}

}  // namespace

AugmentFields augment_fields(const Config& config) {
  config::Augment augment = config.data().augment();
  if (augment.crop_short_sides().empty())
    for (int32_t side : {400, 500, 600}) augment.add_crop_short_sides(side);
  if (augment.short_sides().empty())
    for (int32_t side = 480; side <= 800; side += 32) augment.add_short_sides(side);
  return named_fields(config, augment);
}

Augmentation eval_augment(const Config& config) {
  const config::Data& data = config.data();
  config::Augment size;
  size.set_horizontal_flip(0);
  size.set_crop_probability(0);
  size.add_short_sides(data.val_short_side());
  size.set_long_side(data.val_long_side());
  size.set_height(data.val_height());
  size.set_width(data.val_width());
  AugmentFields fields = named_fields(config, size);
  fields.values["val_crop_pct"] = {data.val_crop_pct()};
  return make_augmentation(fields);
}

ImageSize eval_size(const Config& config, int64_t height, int64_t width) {
  const config::Data& data = config.data();
  const bool fixed = data.val_height() > 0;
  const char* source = height > 0 || width > 0 ? "--height and --width"
                       : fixed                 ? "data.val_height and data.val_width"
                                               : "data.val_short_side and data.val_long_side";
  if (height <= 0) height = fixed ? data.val_height() : data.val_short_side();
  if (width <= 0) width = fixed ? data.val_width() : data.val_long_side();
  check_image_size(height, width, fmt::format("{}: an image", source).c_str());
  return {height, width};
}

LoaderOptions train_loader(const Config& config) {
  const config::Data& data = config.data();
  LoaderOptions o;
  o.batch_size = data.batch_size();
  o.shuffle = true;
  o.drop_last = data.drop_last();
  o.seed = config.seed();
  const AugmentFields fields = augment_fields(config);
  o.augment = make_augmentation(fields);
  o.batch_mixup = {data.augment().batch_mixup(), epochs_of(AugmentPhase::kCombining, fields)};
  o.multi_scale.heights = fields.integers("multi_scale_heights");
  o.multi_scale.bilinear = data.augment().multi_scale_pixels() == "bilinear";
  o.multi_scale.epochs.end = epochs_of(AugmentPhase::kStrong, fields).end;
  o.mix = {data.mix().probability(), data.mix().mixup_alpha(), data.mix().cutmix_alpha(),
           data.mix().cutmix_probability()};
  o.pad_multiple = data.pad_multiple();
  o.threads = data.workers();
  o.prefetch = data.prefetch();
  o.cache_mb = data.cache_mb();
  if (data.bad_images() == config::skip) o.bad_images = BadImages::kReplace;
  o.sampling = data.sampling() == config::repeat_factor    ? Sampling::kRepeatFactor
               : data.sampling() == config::class_balanced ? Sampling::kClassBalanced
                                                           : Sampling::kUniform;
  o.repeat_threshold = data.repeat_threshold();
  o.group_by_shape = data.group_by_shape();
  if (data.overfit() > 0) {  // the images as at evaluation
    o.augment = eval_augment(config);
    o.mix = {};
    o.batch_mixup = {};
    o.multi_scale = {};
  }
  return o;
}

LoaderOptions eval_loader(const Config& config, int64_t batch_size) {
  const config::Data& data = config.data();
  LoaderOptions o;
  o.batch_size = batch_size > 0 ? batch_size : config.eval().batch_size();
  if (o.batch_size <= 0) o.batch_size = data.batch_size();
  o.augment = eval_augment(config);
  o.pad_multiple = data.pad_multiple();
  o.threads = data.workers();
  o.prefetch = data.prefetch();
  o.epochs = 1;
  if (data.bad_images() == config::skip) o.bad_images = BadImages::kLeaveOut;
  return o;
}

kernels::ImageNormalization image_normalization(const Config& config) {
  kernels::ImageNormalization norm;
  for (int i = 0; i < config.data().mean_size(); ++i)
    norm.mean[static_cast<size_t>(i)] = static_cast<float>(config.data().mean(i));
  for (int i = 0; i < config.data().std_size(); ++i)
    norm.std[static_cast<size_t>(i)] = static_cast<float>(config.data().std(i));
  return norm;
}

void set_needs(DataPaths& paths, const Config& config) {
  paths.wants = task_of(config).needs(config);
  paths.label_maps = label_map_options(config);
}

LabelMapOptions label_map_options(const Config& config) {
  const config::LabelMaps& labels = config.data().label_maps();
  return {.ignore = {labels.ignore().begin(), labels.ignore().end()},
          .reduce_zero_label = labels.reduce_zero_label(),
          .names = {labels.names().begin(), labels.names().end()},
          .list = labels.list(),
          .background = labels.background()};
}

ClassChoice class_choice(const Config& config) {
  ClassChoice choice{.only = {config.data().classes().begin(), config.data().classes().end()}};
  for (const config::ClassMapping& mapping : config.data().class_map())
    choice.map.push_back({mapping.name(), mapping.as()});
  return choice;
}

bool has_several_sets(const Config& config) {
  return config.data().more_folders_size() > 0 || config.data().more_train_size() > 0;
}

PlaceOptions place_options(const Config& config) {
  return {.wants = task_of(config).needs(config),
          .val_fraction = config.data().val_fraction(),
          .seed = config.seed()};
}

namespace {

DataPaths paths_of(const config::Split& first,
                   const google::protobuf::RepeatedPtrField<config::Split>& others) {
  auto paths = [](const config::Split& split) {
    return DataPaths{split.annotations(), split.images(), split.format()};
  };
  std::vector<DataPaths> sets{paths(first)};
  for (const config::Split& split : others) sets.push_back(paths(split));
  return unite_paths(sets);
}

// The splits in data.folder and data.more_folders.
DataSplits splits_of_folders(const Config& config, std::vector<std::string>* notes) {
  std::vector<std::string> folders{config.data().folder()};
  folders.insert(folders.end(), config.data().more_folders().begin(), config.data().more_folders().end());
  PlaceOptions options = place_options(config);
  if (config.data().overfit() > 0) options.val_fraction = 0;  // the evaluation is on the training images
  DataSplits splits = find_united(folders, options);
  const std::string named = fmt::format("{}", fmt::join(folders, " + "));
  if (!splits.train)
    fail_input("{}: no training images found in the folder{}", named,
               splits.notes.empty() ? "" : "; " + splits.notes[0]);
  if (notes == nullptr) return splits;
  for (const std::string& note : splits.notes) notes->push_back("note: " + note);
  if (folders.size() > 1)
    notes->push_back(fmt::format("{}: {} data, combined by class name", named, splits.format));
  else
    notes->push_back(fmt::format("{}: {} data, {}{}", named, splits.format, splits.train->images,
                                 splits.val && splits.drawn.empty() && config.data().overfit() == 0
                                     ? " and " + splits.val->images
                                     : ""));
  if (config.data().overfit() > 0) return splits;
  notes->insert(notes->end(), splits.drawn.begin(), splits.drawn.end());
  if (!splits.val) notes->push_back(named + ": has no validation images, so nothing is evaluated");
  return splits;
}

}  // namespace

bool has_masks(const Config& config) {
  return model_types().find(config.model().type(), "model.type").has_masks;
}

DataSplits data_splits(const Config& config, std::vector<std::string>* notes) {
  const config::Data& data = config.data();
  DataSplits splits;
  if (data.folder().empty()) {
    splits.train = paths_of(data.train(), data.more_train());
    if (data.has_val()) splits.val = paths_of(data.val(), data.more_val());
    if (splits.val && has_several_sets(config)) splits.val = known_by_names(*splits.val);
    join_classes(splits);
  } else {
    splits = splits_of_folders(config, notes);
  }
  if (data.overfit() > 0) {
    splits.train->most = data.overfit();
    splits.val = splits.train;
  }
  for (auto* paths : {&splits.train, &splits.val}) {
    if (!*paths) continue;
    (*paths)->allow_outside = data.allow_outside();
    (*paths)->choice = class_choice(config);
    (*paths)->skip_bad_images = data.bad_images() == config::skip;
    set_needs(**paths, config);
  }
  // Metrics can do without the masks that training requires.
  if (splits.val && splits.val->wants.masks) splits.val = with_masks(*splits.val);
  return splits;
}

const EvaluatorSpec& evaluator_of(const Config& config) {
  const Registry<EvaluatorSpec>& known = evaluators(task_name(config));
  if (config.eval().evaluator().empty())
    for (const auto& [name, spec] : known.all())
      if (spec.is_usual) return spec;
  return known.find(config.eval().evaluator(), "eval.evaluator");
}

LabelScheme label_scheme(const Config& config) {
  return config.data().labels() == config::category_id ? LabelScheme::kCategoryId : LabelScheme::kContiguous;
}

Precision precision_of(const Config& config) {
  SACCADE_CHECK(config.precision() != config::auto_, "[options] precision auto was not resolved");
  return {config.precision() == config::bf16 ? DType::kBF16 : DType::kF32,
          config.precision() == config::tf32 ? MathMode::kTf32 : MathMode::kExact};
}

std::string resolve_precision(Config& config, Device device, const std::string& run) {
  if (config.precision() != config::auto_) return "";
  const std::string own = run + "/config.textproto";
  std::error_code error;
  if (!run.empty() && std::filesystem::exists(own, error)) {
    config.set_precision(load_config(own).precision());
    if (config.precision() != config::auto_)
      return fmt::format("precision auto: {}, as when the run began",
                         config::Precision_Name(config.precision()));
  }
  const bool gains = device != Device::kCpu || onednn::has_avx512_bf16();
  config.set_precision(gains ? config::bf16 : config::f32);
  if (device != Device::kCpu) return "precision auto: bf16 on a GPU";
  return gains ? "precision auto: bf16, which this processor has instructions for"
               : "precision auto: f32, since this processor has no instructions for bf16";
}

std::string note_on_exact_precision(const Config& config, Device device) {
  if (device == Device::kCpu || config.precision() != config::f32) return "";
  return "note: precision: f32 computes products exactly, the slowest on a GPU: --set precision=tf32 is about twice as fast, bf16 three "
         "to four times (a training step)";
}

void set_precision(const Precision& precision) {
  execution().compute = precision.compute;
  execution().math = precision.math;
}

}  // namespace saccade
