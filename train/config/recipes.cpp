#include "train/config/recipes.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/files/nearest.h"
#include "core/files/text.h"
#include "core/runtime/cpu/processors.h"
#include "core/tensor/error.h"
#include "train/config/habits.h"
#include "train/config/schema/config_changes.h"
#include "train/config/schema/moved_fields.h"
#include "train/config/text.h"

namespace saccade {
namespace {

constexpr const char* kRate = "optimizer.learning_rate";

// Whether the edit changes the field, or a message that contains it.
bool changes(std::string_view set, std::string_view field) {
  const std::string name = path_of_today(trim(std::string(set.substr(0, set.find('=')))));
  return field == name || (field.starts_with(name) && field[name.size()] == '.');
}
}  // namespace

bool is_set(const std::vector<std::string>& sets, std::string_view field) {
  return std::ranges::any_of(sets, [&](const std::string& set) { return changes(set, field); });
}

std::vector<std::string> notes_without_data(const std::vector<std::string>& sets) {
  std::vector<std::string> notes;
  for (const std::string& set : sets)
    for (const auto& [field, why] : {std::pair{"eval.evaluator", "nothing is measured"},
                                     std::pair{"data.bad_images", "no data set is read"},
                                     std::pair{"data.workers", "no data set is read"},
                                     std::pair{"data.prefetch", "no data set is read"}})
      if (path_of_today(trim(set.substr(0, set.find('=')))) == field)
        notes.push_back(fmt::format("note: --set {}: changes nothing, {}", escaped(set), why));
  return notes;
}

int64_t images_of_step(const Config& config) {
  const Config c = resolve_config(config);
  return int64_t{c.data().batch_size()} * c.train().accumulate();
}

namespace {

bool is_frozen_resnet(const Config& config) {
  const config::Backbone backbone = resolve_config(config).model().backbone();
  return backbone.type() == "resnet" &&
         (backbone.frozen_stages() > 0 || backbone.frozen_batch_norm() || backbone.frozen_statistics());
}

// The learning rate for another batch size than the one it was tuned for.
double rate_for(const Config& config, const Config& before) {
  return resolve_config(before).optimizer().learning_rate() * static_cast<double>(images_of_step(config)) /
         static_cast<double>(images_of_step(before));
}

// Warns if the size of the training images was changed but other sizes of the recipe still apply. Both
// configurations are resolved.
std::vector<std::string> size_warnings(const Config& before, const Config& after) {
  std::vector<std::string> out;
  const config::Augment &was = before.data().augment(), &is = after.data().augment();
  if (was.height() == is.height() && was.width() == is.width()) return out;
  if (is.multi_scale_heights_size() > 0 &&
      std::ranges::equal(was.multi_scale_heights(), is.multi_scale_heights()))
    out.push_back(fmt::format(
        "warning: batches are {} to {} pixels high (data.augment.multi_scale_heights), whatever data.augment.height says; --set "
        "data.augment.multi_scale_heights=[] turns this off",
        *std::ranges::min_element(is.multi_scale_heights()),
        *std::ranges::max_element(is.multi_scale_heights())));
  const config::Data &old = before.data(), &data = after.data();
  if (data.val_height() > 0 && data.val_height() == old.val_height() && data.val_width() == old.val_width() &&
      (data.val_height() != is.height() || data.val_width() != is.width()))
    out.push_back(
        fmt::format("warning: evaluation is still at {} x {} pixels (data.val_height, data.val_width)",
                    data.val_height(), data.val_width()));
  return out;
}

// The part of the fitting that needs the size of the data. `step`: the images of a step of the recipe; if the
// data or --batch make batches smaller, several are accumulated for as many images, but no more than an epoch
// has.
void fit_to_size(Config& config, const DataSize& size, const std::vector<std::string>& sets, int64_t step,
                 bool has_flag) {
  constexpr int64_t kBatchesAnEpoch = 8;
  const int64_t most = std::clamp<int64_t>(size.images / kBatchesAnEpoch, 1, INT32_MAX);
  const Config resolved = resolve_config(config);
  int64_t batch = resolved.data().batch_size(), accumulate = resolved.train().accumulate();
  const bool gathers = !is_set(sets, "train.accumulate"), has_batch = is_set(sets, "data.batch_size");
  if (!has_batch && !has_flag)
    batch = std::min(batch, std::max<int64_t>(gathers ? most : most / accumulate, 1));
  if (gathers)
    accumulate = has_batch ? std::min(accumulate, std::max<int64_t>(most / batch, 1))
                           : batches_of_step(std::min(step, std::max<int64_t>(size.images, 1)), batch);
  config.mutable_data()->set_batch_size(static_cast<int32_t>(batch));
  config.mutable_train()->set_accumulate(static_cast<int32_t>(accumulate));
}

// Whether the field says where the data are, which is reported separately.
bool among_the_places(std::string_view field) {
  for (const std::string_view place :
       {"data.folder", "data.more_folders", "data.train", "data.val", "data.more_train", "data.more_val"})
    if (field == place) return true;
  return false;
}

const char* reason_of(std::string_view field) {
  if (field == kRate) return " (in proportion to the batch)";
  if (field == "data.batch_size") return " (there are few images)";
  if (field == "train.accumulate") return " (batches per step, for the recipe's images per step)";
  if (field == "model.num_classes") return " (the number of classes in the data)";
  if (field == "data.workers") return " (the number of processors here)";
  if (field == "schedule.warmup_steps") return " (a tenth of the steps)";
  if (field.starts_with("model.backbone.frozen")) return " (without --init-from, the weights are random)";
  return "";
}

}  // namespace

std::string Recipe::title() const {
  std::string line = text.substr(0, text.find('\n'));
  return trim(line.substr(std::min(line.find_first_not_of("# "), line.size())));
}

std::span<const Recipe> recipes() {
  static const std::vector<Recipe> all = {
#include "configs/recipes.inc"
  };
  return all;
}

const Recipe& find_recipe(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == name) return recipe;
    names.push_back(recipe.name);
  }
  if (name.starts_with("rf_detr_") && name.ends_with("xl") && !name.starts_with("rf_detr_seg"))
    fail_input(
        "{}: no recipe \"{}\": RF-DETR's XL and 2XL detectors are under a licence (PML 1.0) that forbids including them, expected "
        "rf_detr_n, rf_detr_s, rf_detr_m or rf_detr_l",
        where, shortened(name));
  if (const std::string ours = ours_of_model(name); !ours.empty())
    fail_input("{}: no recipe \"{}\", try {} (saccade describe models lists all)", where, shortened(name),
               ours);
  fail_input("{}: no recipe \"{}\"{} (saccade describe models lists all)", where, shortened(name),
             did_you_mean(nearest_name(name, names)));
}

void fit_warmup(Config& config, int64_t images, const std::vector<std::string>& sets) {
  constexpr int64_t kWarmupShare = 10;
  const double steps =
      config.train().epochs() * static_cast<double>(images) / static_cast<double>(images_of_step(config));
  if (config.train().epochs() > 0 && !is_set(sets, "schedule.warmup_steps") &&
      config.schedule().warmup_steps() * kWarmupShare > steps)
    config.mutable_schedule()->set_warmup_steps(static_cast<int32_t>(steps / kWarmupShare));
}

FittedRecipe fit_recipe(const Recipe& recipe, const DataFlags& flags, const std::vector<std::string>& sets,
                        bool has_weights, const QuickFlags& quick, const FurtherFit& further) {
  const Config before = parse_config(recipe.text, "recipe " + recipe.name);
  Config config = before;
  use_data(config, flags);
  if (!flags.folders.empty()) {
    config::Data& data = *config.mutable_data();
    data.set_labels(config::contiguous);
    data.set_workers(std::min(data.workers(), available_processors()));
    config.mutable_model()->set_num_classes(0);
  }
  FittedRecipe fitted;
  const std::vector<FlagEdit> edits = flag_edits(before, quick);
  for (const FlagEdit& edit : edits) apply_set(config, edit.assignment);
  for (const std::string& set : sets) apply_set(config, set, &fitted.notes);
  validate_config(config);
  const std::optional<DataSize> size = task_of(config).data_size(config);
  if (!flags.folders.empty()) fitted.size = size;
  if (fitted.size) fit_to_size(config, *size, sets, images_of_step(before), quick.batch > 0);
  if (!is_set(sets, kRate) && !quick.learning_rate)
    config.mutable_optimizer()->set_learning_rate(rate_for(config, before));
  if (!has_weights && is_frozen_resnet(config)) {
    config::Backbone& backbone = *config.mutable_model()->mutable_backbone();
    if (!is_set(sets, "model.backbone.frozen_stages")) backbone.set_frozen_stages(0);
    if (!is_set(sets, "model.backbone.frozen_batch_norm")) backbone.set_frozen_batch_norm(false);
    if (!is_set(sets, "model.backbone.frozen_statistics")) backbone.set_frozen_statistics(false);
  }
  const Config only_fitted = config;
  if (further) further(config, size);
  const std::vector<ConfigChange> later = config_changes(resolve_config(only_fitted), resolve_config(config));
  // Last, because it depends on the steps, which depend on the batches of each.
  if (fitted.size && config.data().overfit() == 0) fit_warmup(config, size->images, sets);
  fitted.config = config;
  for (ConfigChange& c : config_changes(resolve_config(before), resolve_config(config))) {
    if (among_the_places(c.field)) continue;
    if (c.field == "model.num_classes" && c.to == "0" && size) c.to = std::to_string(size->classes);
    if (std::ranges::find(later, c.field, &ConfigChange::field) != later.end()) {
      fitted.further.push_back(c.to_string());
      continue;
    }
    const auto edit =
        std::ranges::find_if(edits, [&](const FlagEdit& e) { return changes(e.assignment, c.field); });
    fitted.notes.push_back(c.to_string() + (is_set(sets, c.field) ? " (--set)"
                                            : edit != edits.end() ? fmt::format(" ({})", edit->flag)
                                                                  : reason_of(c.field)));
  }
  for (std::string& warning : size_warnings(resolve_config(before), resolve_config(config)))
    fitted.notes.push_back(std::move(warning));
  return fitted;
}

Config chosen_recipe(const std::string& config, const std::string& model, const DataFlags& data,
                     const std::vector<std::string>& sets, std::vector<std::string>& notes,
                     const QuickFlags& quick) {
  if (config.empty() && model.empty())
    fail_input("--config: not given, expected a file, or --model with the name of a recipe");
  if (!config.empty() && !model.empty()) fail_input("--config and --model cannot be combined");
  refuse_conflicts(named_fields(quick, data), sets);
  if (!model.empty()) return fit_recipe(find_recipe(model, "--model"), data, sets, true, quick).config;
  Config chosen = load_config(config, {}, &notes);
  for (const FlagEdit& edit : flag_edits(chosen, quick)) apply_set(chosen, edit.assignment);
  for (const std::string& set : sets) apply_set(chosen, set, &notes);
  use_data(chosen, data);
  if (std::string note = note_on_model(chosen); !note.empty()) notes.push_back(std::move(note));
  return chosen;
}

std::string note_on_model(const Config& config) {
  if (config.has_model()) return "";
  const config::Model model = resolve_config(config).model();
  return fmt::format(
      "note: the configuration sets nothing of model, so the default is taken: {} with a {} of depth {}",
      model.type(), model.backbone().type(), model.backbone().depth());
}

std::vector<std::string> config_warnings(const Config& read, const Config& edited, bool has_weights) {
  const Config before = resolve_config(read), after = resolve_config(edited);
  std::vector<std::string> out = size_warnings(before, after);
  if (std::string note = note_on_model(edited); !note.empty()) out.push_back(std::move(note));
  if (images_of_step(before) != images_of_step(after) &&
      before.optimizer().learning_rate() == after.optimizer().learning_rate())
    out.push_back(fmt::format(
        "warning: {} per step, where the recipe has {}, but the same {} {}; in proportion it would be {:.3g}",
        count_of(images_of_step(after), "image", "images"), images_of_step(before), kRate,
        after.optimizer().learning_rate(), rate_for(after, before)));
  if (!has_weights && is_frozen_resnet(after))
    out.emplace_back(
        "warning: model.backbone freezes some of its random weights (frozen_stages, frozen_batch_norm); expected "
        "--init-from, or frozen_stages 0 and frozen_batch_norm false");
  return out;
}

}  // namespace saccade
