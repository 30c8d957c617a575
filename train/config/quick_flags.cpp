#include "train/config/quick_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/tensor/error.h"
#include "train/config/recipes.h"
#include "train/config/schema/config_changes.h"
#include "train/config/schema/moved_fields.h"
#include "train/config/text.h"

namespace saccade {
namespace {

// The side that --image-size names: the longer one of a fixed size, else the short side.
int64_t named_side(const config::Data& data) {
  return data.val_height() > 0 ? std::max(data.val_height(), data.val_width()) : data.val_short_side();
}

// Collects the edits of one flag; leaves out values that do not change.
class Editor {
 public:
  Editor(const char* flag, std::vector<FlagEdit>& edits) : flag_(flag), edits_(edits) {}

  template <class T>
  void set(const char* field, T value, T before) {
    if (value != before) edits_.push_back({flag_, fmt::format("{}={}", field, value)});
  }
  template <class List>
  void set_list(const char* field, const std::vector<int64_t>& values, const List& before) {
    if (!std::ranges::equal(values, before))
      edits_.push_back({flag_, fmt::format("{}=[{}]", field, fmt::join(values, ", "))});
  }

 protected:
  const char* flag_;
  std::vector<FlagEdit>& edits_;
};

// Scales lengths in pixels in proportion to the new image side.
class SizeEditor : public Editor {
 public:
  SizeEditor(const config::Data& data, int64_t size, std::vector<FlagEdit>& edits)
      : Editor("--image-size", edits), size_(size), before_(named_side(data)) {
    // The sizes of multi-scale training show which multiples the model's maps and windows need.
    for (const int32_t side : data.augment().multi_scale_heights()) step_ = std::gcd(step_, int64_t{side});
    if (step_ > 0 && size % step_ != 0) {
      const int64_t low = std::max(size / step_ * step_, step_);
      fail_input(
          "--image-size: {} is not a multiple of {}, as data.augment.multi_scale_heights are; expected {} or {}",
          size, step_, low, low + step_);
    }
  }

  // For a size to which images are resized, and for one that only limits or cuts them.
  int64_t fixed(int64_t length) const { return scaled(length, std::max<int64_t>(step_, 1)); }
  int64_t bound(int64_t length) const { return scaled(length, 1); }

  void set_fixed(const char* field, int64_t before) { set(field, fixed(before), before); }
  void set_bound(const char* field, int64_t before) { set(field, bound(before), before); }
  template <class List>
  void set_bounds(const char* field, const List& before, const std::vector<int64_t>& usual) {
    const std::vector<int64_t> sides =
        before.empty() ? usual : std::vector<int64_t>(before.begin(), before.end());
    std::vector<int64_t> scaled;
    for (const int64_t side : sides) scaled.push_back(bound(side));
    set_list(field, scaled, sides);
  }

 private:
  int64_t scaled(int64_t length, int64_t step) const {
    const double exact =
        static_cast<double>(length) * static_cast<double>(size_) / static_cast<double>(before_);
    return length == 0 ? 0 : std::max<int64_t>(std::llround(exact / static_cast<double>(step)), 1) * step;
  }

  int64_t size_, before_, step_ = 0;
};

void edit_evaluation_size(const Config& config, SizeEditor& edit) {
  const config::Data& data = config.data();
  if (data.val_height() > 0) {
    edit.set_fixed("data.val_height", data.val_height());
    edit.set_fixed("data.val_width", data.val_width());
  } else {
    edit.set_bound("data.val_short_side", data.val_short_side());
    edit.set_bound("data.val_long_side", data.val_long_side());
  }
  edit.set_bound("eval.window", config.eval().window());
  edit.set_bound("eval.window_stride", config.eval().window_stride());
}

void edit_size(const Config& config, int64_t size, std::vector<FlagEdit>& edits) {
  const config::Data& data = config.data();
  const config::Augment& augment = data.augment();
  SizeEditor edit(data, size, edits);
  const bool is_fixed = augment.height() > 0;
  if (is_fixed) {
    edit.set_fixed("data.augment.height", augment.height());
    edit.set_fixed("data.augment.width", augment.width());
    std::vector<int64_t> heights;
    for (const int32_t height : augment.multi_scale_heights()) heights.push_back(edit.fixed(height));
    edit.set_list("data.augment.multi_scale_heights", heights, augment.multi_scale_heights());
    edit.set_bound("data.augment.scale_short_side", augment.scale_short_side());
    edit.set_bound("data.augment.scale_long_side", augment.scale_long_side());
  } else {
    edit.set_bounds("data.augment.short_sides", augment.short_sides(),
                    {480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800});
    edit.set_bound("data.augment.long_side", augment.long_side());
  }
  if (is_fixed ? augment.stretch_crop() > 0 : augment.crop_probability() > 0) {
    edit.set_bounds("data.augment.crop_short_sides", augment.crop_short_sides(), {400, 500, 600});
    edit.set_bound("data.augment.crop_min", augment.crop_min());
    edit.set_bound("data.augment.crop_max", augment.crop_max());
  }
  if (augment.mosaic() > 0) edit.set_bound("data.augment.mosaic_side", augment.mosaic_side());
  edit_evaluation_size(config, edit);
  // For a backbone built for one image size, if that is the size of the evaluation.
  for (const config::Arg& arg : config.model().backbone().arg())
    if (arg.key() == "image_size" && arg.int_() == data.val_height() && arg.int_() == data.val_width())
      edit.set("model.backbone.arg.image_size", size, int64_t{arg.int_()});
}

void edit_epochs(const Config& config, int64_t epochs, bool resumes, std::vector<FlagEdit>& edits) {
  Editor edit("--epochs", edits);
  const config::Train& train = config.train();
  edit.set("train.epochs", static_cast<double>(epochs), train.epochs());
  edit.set("train.max_steps", int64_t{0}, int64_t{train.max_steps()});
  if (train.epochs() <= 0 || resumes) return;
  const double ratio = static_cast<double>(epochs) / train.epochs();
  const config::Schedule& schedule = config.schedule();
  if (schedule.drop_epochs_size() > 0 && ratio != 1) {
    std::vector<double> drops(schedule.drop_epochs().begin(), schedule.drop_epochs().end());
    for (double& drop : drops) drop *= ratio;
    edits.push_back({"--epochs", fmt::format("schedule.drop_epochs=[{}]", fmt::join(drops, ", "))});
  }
  edit.set("schedule.warmup_epochs", schedule.warmup_epochs() * ratio, schedule.warmup_epochs());
  edit.set("schedule.flat_epochs", schedule.flat_epochs() * ratio, schedule.flat_epochs());
  edit.set("schedule.end_epochs", schedule.end_epochs() * ratio, schedule.end_epochs());
  const config::Augment& augment = config.data().augment();
  auto moved = [&](int32_t epoch, int64_t least) {
    return epoch == 0 ? 0 : std::max<int64_t>(std::llround(epoch * ratio), least);
  };
  edit.set("data.augment.strong_start_epoch", moved(augment.strong_start_epoch(), 0),
           int64_t{augment.strong_start_epoch()});
  edit.set("data.augment.strong_stop_epoch", moved(augment.strong_stop_epoch(), 1),
           int64_t{augment.strong_stop_epoch()});
  edit.set("data.augment.mosaic_stop_epoch", moved(augment.mosaic_stop_epoch(), 1),
           int64_t{augment.mosaic_stop_epoch()});
}

}  // namespace

std::vector<FlagEdit> flag_edits(const Config& config, const QuickFlags& flags, bool resumes) {
  const Config resolved = resolve_config(config);
  std::vector<FlagEdit> edits;
  if (flags.epochs > 0) edit_epochs(resolved, flags.epochs, resumes, edits);
  if (flags.batch > 0) {
    Editor edit("--batch", edits);
    const int64_t batch = resolved.data().batch_size(), gathered = resolved.train().accumulate();
    edits.push_back({"--batch", fmt::format("data.batch_size={}", flags.batch)});
    if (!resumes) edit.set("train.accumulate", batches_of_step(batch * gathered, flags.batch), gathered);
  }
  if (flags.image_size > 0) edit_size(resolved, flags.image_size, edits);
  if (flags.learning_rate)
    edits.push_back({"--lr", fmt::format("optimizer.learning_rate={}", *flags.learning_rate)});
  return edits;
}

std::vector<NamedField> named_fields(const QuickFlags& flags, const DataFlags& data) {
  std::vector<NamedField> fields;
  auto add = [&](const char* flag, const char* field, const auto& value) {
    fields.push_back({fmt::format("{} {}", flag, value), fmt::format("{}={}", field, value)});
  };
  if (flags.epochs > 0) add("--epochs", "train.epochs", flags.epochs);
  if (flags.batch > 0) add("--batch", "data.batch_size", flags.batch);
  if (flags.learning_rate) add("--lr", "optimizer.learning_rate", *flags.learning_rate);
  if (!data.folders.empty()) {
    add("--data", "data.folder", data.folders[0]);
    const std::vector<std::string> more(data.folders.begin() + 1, data.folders.end());
    fields.push_back({fmt::format("--data {}", fmt::join(data.folders, " --data ")),
                      fmt::format("data.more_folders=[{}]", fmt::join(more, ","))});
  }
  if (!data.classes.empty())
    add("--classes", "data.classes", fmt::format("{}", fmt::join(data.classes, ",")));
  return fields;
}

void refuse_conflicts(const std::vector<NamedField>& flags, const std::vector<std::string>& sets) {
  for (const NamedField& flag : flags) {
    const std::string field = flag.assignment.substr(0, flag.assignment.find('='));
    Config by_flag;
    apply_set(by_flag, flag.assignment);
    for (const std::string& set : sets) {
      if (!is_set({set}, field)) continue;
      Config by_set = by_flag;
      apply_set(by_set, set);
      // Braces that leave the field out get a note of their own (apply_set).
      const bool is_group = path_of_today(trim(set.substr(0, set.find('=')))) != field;
      for (const ConfigChange& change : config_changes(by_flag, by_set))
        if (change.field == field && !(is_group && change.to == "none"))
          fail_input("{} and --set {} set the same field; give one of them", shortened(flag.flag),
                     shortened(set));
    }
  }
}

int64_t batches_of_step(int64_t images, int64_t batch) {
  return std::max<int64_t>((images + batch / 2) / batch, 1);
}

std::vector<std::string> size_edits(const Config& config, int64_t image_size) {
  std::vector<std::string> out;
  if (image_size == 0) return out;
  std::vector<FlagEdit> edits;
  const Config resolved = resolve_config(config);
  SizeEditor edit(resolved.data(), image_size, edits);
  edit_evaluation_size(resolved, edit);
  for (FlagEdit& e : edits) out.push_back(std::move(e.assignment));
  return out;
}

}  // namespace saccade
