// Checks a configuration: the fields' own rules, and rules that involve several fields.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/images/image.h"
#include "models/build.h"
#include "train/config/config.h"
#include "train/config/schema/config_fields.h"
#include "train/config/schema/rules.h"
#include "train/config/task.h"
#include "train/config/text.h"

namespace saccade {

namespace {

void check_range(const char* low_name, double low, const char* high_name, double high) {
  if (low > high) fail_input("data.augment.{}: {} exceeds {} = {}", low_name, low, high_name, high);
}

void check_pixels(const std::string& name, int64_t height, int64_t width) {
  if (height * width > kMaxImagePixels)
    fail_input("{}: makes images of {} x {} pixels, expected at most {} in all", name, height, width,
               kMaxImagePixels);
}

// Checks the largest images that the configured sizes produce.
void check_sizes(const config::Data& data) {
  const config::Augment& augment = data.augment();
  if (data.val_height() > 0)
    check_pixels("data.val_height", data.val_height(), data.val_width());
  else
    check_pixels("data.val_short_side", data.val_short_side(), data.val_long_side());
  if (augment.height() > 0) return check_pixels("data.augment.height", augment.height(), augment.width());
  check_pixels("data.augment.crop_max", augment.crop_max(), augment.crop_max());
  for (int32_t side : augment.crop_short_sides()) check_pixels("data.augment.crop_short_sides", side, side);
  for (int32_t side : augment.short_sides())
    check_pixels("data.augment.short_sides", side, std::max(side, augment.long_side()));
}

// Checks the settings of classes and of several data sets.
void check_classes(const config::Data& data) {
  std::set<std::string> mapped, wanted;
  for (const config::ClassMapping& mapping : data.class_map()) {
    if (mapping.name().empty()) fail_input("data.class_map: a name is empty, expected a class of the data");
    if (!mapped.insert(mapping.name()).second)
      fail_input("data.class_map: the class \"{}\" appears twice", shortened(mapping.name()));
  }
  for (const std::string& name : data.classes()) {
    if (name.empty()) fail_input("data.classes: a name is empty, expected that of a class");
    if (!wanted.insert(name).second)
      fail_input("data.classes: the class \"{}\" appears twice", shortened(name));
  }
  for (const std::string& folder : data.more_folders())
    if (folder.empty() || data.folder().empty())
      fail_input("data.more_folders: {}", folder.empty()
                                              ? "a name is empty, expected a folder"
                                              : "given, but data.folder, the first folder, is not");
  if (data.more_val_size() > 0 && !data.has_val())
    fail_input("data.more_val: given, but data.val, the first set, is not");
}

void check_pair(const char* a_name, int a, const char* b_name, int b) {
  if ((a > 0) != (b > 0))
    fail_input("{} = {} and {} = {}: expected both to be set, or both to be 0", a_name, a, b_name, b);
}

// Checks operations on whole batches, and the epochs of the strong augmentations.
void check_batches(const config::Data& data) {
  const config::Augment& augment = data.augment();
  const bool changed = augment.batch_mixup() > 0 || augment.multi_scale_heights_size() > 0;
  if (changed && pads_batches(data))
    fail_input(
        "data.augment.{}: needs batches without padding, expected data.augment.height and width, data.pad_multiple 1, and "
        "pad_as_image with any random scale",
        augment.batch_mixup() > 0 ? "batch_mixup" : "multi_scale_heights");
  for (int32_t height : augment.multi_scale_heights()) {
    const double width = static_cast<double>(height) * static_cast<double>(augment.width()) /
                         static_cast<double>(augment.height());
    check_pixels("data.augment.multi_scale_heights", height, std::llround(std::min(width, 1e9)));
  }
  const int start = augment.strong_start_epoch();
  for (auto [name, stop] : {std::pair{"strong_stop_epoch", augment.strong_stop_epoch()},
                            std::pair{"mosaic_stop_epoch", augment.mosaic_stop_epoch()}})
    if (stop > 0 && stop <= start)
      fail_input("data.augment.{}: {}, expected more than strong_start_epoch = {}, or 0", name, stop, start);
}

}  // namespace

void check_parts(const config::Model& model) {
  for (const auto* part : other_parts(model))
    if (model.GetReflection()->HasField(model, part)) {
      std::string known = "model.backbone";
      for (const std::string& name : model_types().find(model.type()).parts) known += ", model." + name;
      fail_input("model.{}: is set, but model.type \"{}\" does not read it, expected only {}", part->name(),
                 model.type(), known);
    }
}

bool pads_batches(const config::Data& data) {
  const config::Augment& augment = data.augment();
  const bool scaled = augment.crop_area_min() == 0 &&
                      (augment.scale_min() != 1 || augment.scale_max() != 1 || augment.aspect_jitter() != 1);
  return augment.height() == 0 || data.pad_multiple() != 1 || (scaled && !augment.pad_as_image());
}

void validate_config(const Config& given) {
  const Config config = resolve_config(given);
  check_rules(config);
  check_parts(config.model());
  const auto& data = config.data();
  for (auto [name, size] : {std::pair{"data.mean", data.mean_size()}, std::pair{"data.std", data.std_size()}})
    if (size != 0 && size != 3)
      fail_input("{}: {}, expected 3 (red, green, blue) or none", name, count_of(size, "value", "values"));
  check_pair("data.val_height", data.val_height(), "data.val_width", data.val_width());
  check_classes(data);
  if (data.val_long_side() < data.val_short_side())
    fail_input("data.val_long_side: {} is less than data.val_short_side = {}", data.val_long_side(),
               data.val_short_side());
  const auto& augment = data.augment();
  check_pair("data.augment.height", augment.height(), "data.augment.width", augment.width());
  check_range("crop_min", augment.crop_min(), "crop_max", augment.crop_max());
  check_range("scale_min", augment.scale_min(), "scale_max", augment.scale_max());
  check_range("crop_area_min", augment.crop_area_min(), "crop_area_max", augment.crop_area_max());
  check_range("crop_ratio_min", augment.crop_ratio_min(), "crop_ratio_max", augment.crop_ratio_max());
  if (augment.crop_area_min() > 0 && augment.height() == 0)
    fail_input("data.augment.crop_area_min: {} without height and width, expected a size for the window",
               augment.crop_area_min());
  if (data.val_crop_pct() > 0 && data.val_height() == 0)
    fail_input(
        "data.val_crop_pct: {} without data.val_height and data.val_width, expected the size of the centre",
        data.val_crop_pct());
  check_sizes(data);
  check_batches(data);
  task_of(config).check(config);
  const auto& drops = config.schedule().drop_epochs();
  for (int i = 1; i < drops.size(); ++i)
    if (!(drops[i] > drops[i - 1]))
      fail_input("schedule.drop_epochs: {} follows {}, expected increasing values", drops[i], drops[i - 1]);
}

void validate_for_training(const Config& config) {
  validate_config(config);
  const Task& task = task_of(config);
  const auto& data = config.data();
  if (data.folder().empty()) {
    task.check_split("data.train", data.train());
    if (data.has_val()) task.check_split("data.val", data.val());
    for (int i = 0; i < data.more_train_size(); ++i)
      task.check_split(fmt::format("data.more_train.{}", i), data.more_train(i));
    for (int i = 0; i < data.more_val_size(); ++i)
      task.check_split(fmt::format("data.more_val.{}", i), data.more_val(i));
  } else {
    for (auto [name, is_given] : {std::pair{"train", data.has_train()}, std::pair{"val", data.has_val()},
                                  std::pair{"more_train", data.more_train_size() > 0},
                                  std::pair{"more_val", data.more_val_size() > 0}})
      if (is_given) fail_input("data.folder (\"{}\") and data.{} cannot be combined", data.folder(), name);
  }
  const auto& train = config.train();
  if (train.epochs() <= 0 && train.max_steps() <= 0 && train.max_minutes() <= 0)
    fail_input(
        "train.epochs, train.max_steps and train.max_minutes are all 0, expected at least one of them");
  if (train.patience() > 0 && train.eval_every_epochs() == 0)
    fail_input("train.patience: {}, but train.eval_every_epochs = 0 evaluates only at the end",
               train.patience());
}

void need(const std::string& field, const std::string& value, const char* what) {
  if (value.empty())
    fail_input("{}: not set, expected {} (in the file or with --set {}=...)", field, what, field);
}

}  // namespace saccade
