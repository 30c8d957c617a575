#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "models/build.h"
#include "train/config/schema/config_changes.h"
#include "train/config/task.h"

namespace saccade {
namespace {

using Augment = config::Augment;

bool is_fixed(const Config& c) { return c.data().augment().height() > 0; }
bool crops_area(const Config& c) { return is_fixed(c) && c.data().augment().crop_area_min() > 0; }
bool is_scaled(const Config& c) {
  const Augment& a = c.data().augment();
  return is_fixed(c) && !crops_area(c) &&
         (a.scale_min() != 1 || a.scale_max() != 1 || a.aspect_jitter() != 1);
}
bool is_stretched(const Config& c) { return is_fixed(c) && !crops_area(c) && !is_scaled(c); }
bool changes_colours(const Config& c) {
  const Augment& a = c.data().augment();
  return a.brightness() > 0 || a.contrast() > 0 || a.saturation() > 0 || a.hue() > 0;
}
bool is_combined(const Config& c) {
  return c.data().augment().mosaic() > 0 || c.data().augment().batch_mixup() > 0;
}
bool is_strong(const Config& c) {
  const Augment& a = c.data().augment();
  return is_combined(c) || a.photometric_distortion() > 0 || a.zoom_out() > 0 || a.iou_crop() > 0;
}
bool mixes(const Config& c) { return c.data().mix().mixup_alpha() > 0 || c.data().mix().cutmix_alpha() > 0; }
bool is_softmax(const Config& c) { return c.criterion().class_loss() == config::softmax; }
bool warms_up(const Config& c) { return c.schedule().warmup_steps() > 0 || c.schedule().warmup_epochs() > 0; }
bool has_type(const std::string& type, std::initializer_list<const char*> types) {
  return std::ranges::find(types, type) != types.end();
}

// Fields that have an effect only if `works`; otherwise they have none "`without`".
struct Dependence {
  std::initializer_list<const char*> fields;
  bool (*works)(const Config&);
  const char* without;
};

const Dependence kDependences[] = {
    {{"data.augment.scale_min", "data.augment.scale_max", "data.augment.aspect_jitter"},
     [](const Config& c) { return is_fixed(c) && !crops_area(c); },
     "without data.augment.height and width, or with crop_area_min"},
    {{"data.augment.pad_as_image", "data.augment.scale_short_side", "data.augment.cat_max_ratio"},
     is_scaled,
     "without a random scale (data.augment.height, scale_min)"},
    {{"data.augment.scale_long_side"},
     [](const Config& c) { return is_scaled(c) && c.data().augment().scale_short_side() > 0; },
     "without data.augment.scale_short_side"},
    {{"eval.window_stride"}, [](const Config& c) { return c.eval().window() > 0; }, "without eval.window"},
    {{"data.augment.crop_area_max", "data.augment.crop_ratio_min", "data.augment.crop_ratio_max"},
     crops_area,
     "without data.augment.crop_area_min"},
    {{"data.augment.short_sides", "data.augment.long_side", "data.augment.crop_probability"},
     [](const Config& c) { return !is_fixed(c); },
     "with the fixed size of data.augment.height and width"},
    {{"data.augment.crop_short_sides", "data.augment.crop_min", "data.augment.crop_max"},
     [](const Config& c) {
       return is_fixed(c) ? is_stretched(c) && c.data().augment().stretch_crop() > 0
                          : c.data().augment().crop_probability() > 0;
     },
     "without data.augment.crop_probability, or, with a fixed size, stretch_crop"},
    {{"data.augment.stretch_crop"},
     is_stretched,
     "unless images are stretched to data.augment.height and width"},
    {{"data.augment.multi_scale_pixels"},
     [](const Config& c) { return c.data().augment().multi_scale_heights_size() > 0; },
     "without data.augment.multi_scale_heights"},
    {{"data.augment.color_probability"},
     changes_colours,
     "without data.augment.brightness, contrast, saturation or hue"},
    {{"data.augment.min_area_ratio", "data.augment.min_box_side"},
     [](const Config& c) { return task_of(c).needs(c).boxes; },
     "without boxes"},
    {{"data.augment.mosaic_side"},
     [](const Config& c) { return c.data().augment().mosaic() > 0; },
     "without data.augment.mosaic"},
    {{"data.augment.mosaic_stop_epoch"}, is_combined, "without data.augment.mosaic or batch_mixup"},
    {{"data.augment.strong_start_epoch"},
     is_strong,
     "without a strong augmentation (data.augment.mosaic, ...)"},
    {{"data.augment.strong_stop_epoch"},
     [](const Config& c) { return is_strong(c) || c.data().augment().multi_scale_heights_size() > 0; },
     "without a strong augmentation (data.augment.mosaic, ...) or multi_scale_heights"},
    {{"data.val_short_side", "data.val_long_side"},
     [](const Config& c) { return c.data().val_height() == 0; },
     "with the fixed size of data.val_height and val_width"},
    {{"data.repeat_threshold"},
     [](const Config& c) { return c.data().sampling() == config::repeat_factor; },
     "without data.sampling: repeat_factor"},
    {{"data.val_fraction"},
     [](const Config& c) { return !c.data().folder().empty(); },
     "without data.folder"},
    {{"data.mix.probability"}, mixes, "without data.mix.mixup_alpha or cutmix_alpha"},
    {{"data.mix.cutmix_probability"},
     [](const Config& c) { return c.data().mix().mixup_alpha() > 0 && c.data().mix().cutmix_alpha() > 0; },
     "without both data.mix.mixup_alpha and cutmix_alpha"},
    {{"criterion.giou_weight", "criterion.no_object_weight", "criterion.cost_class", "criterion.cost_bbox",
      "criterion.cost_giou", "criterion.cost_alpha", "criterion.cost_gamma", "criterion.extra_group_repeat"},
     [](const Config& c) { return model_types().find(c.model().type()).reads("transformer"); },
     "without a transformer, whose queries are matched with the objects"},
    {{"criterion.no_object_weight"},
     [](const Config& c) { return is_softmax(c); },
     "without criterion.class_loss: softmax"},
    {{"criterion.focal_alpha", "criterion.focal_gamma", "criterion.cost_alpha", "criterion.cost_gamma"},
     [](const Config& c) { return !is_softmax(c); },
     "with criterion.class_loss: softmax"},
    {{"criterion.extra_group_repeat"},
     [](const Config& c) { return c.model().transformer().extra_query_groups() > 0; },
     "without model.transformer.extra_query_groups"},
    {{"model.transformer.denoising.label_noise", "model.transformer.denoising.box_noise"},
     [](const Config& c) { return c.model().transformer().denoising().queries() > 0; },
     "without model.transformer.denoising.queries"},
    {{"optimizer.beta1", "optimizer.beta2", "optimizer.epsilon"},
     [](const Config& c) { return c.optimizer().type() != "sgd"; },
     "with optimizer.type: sgd"},
    {{"optimizer.momentum"},
     [](const Config& c) { return c.optimizer().type() != "adamw"; },
     "with optimizer.type: adamw"},
    {{"schedule.drop_epochs", "schedule.gamma"},
     [](const Config& c) {
       return !has_type(c.schedule().type(), {"constant", "cosine", "flat_cosine", "poly"});
     },
     "without schedule.type: step"},
    {{"schedule.final_ratio"},
     [](const Config& c) {
       return !has_type(c.schedule().type(), {"constant", "step"});
     },
     "without schedule.type: cosine, flat_cosine or poly"},
    {{"schedule.power"},
     [](const Config& c) {
       return !has_type(c.schedule().type(), {"constant", "step", "cosine", "flat_cosine"});
     },
     "without schedule.type: poly"},
    {{"schedule.flat_epochs", "schedule.end_epochs"},
     [](const Config& c) {
       return !has_type(c.schedule().type(), {"constant", "step", "cosine", "poly"});
     },
     "without schedule.type: flat_cosine"},
    {{"schedule.warmup_ratio", "schedule.warmup_shape"},
     warms_up,
     "without schedule.warmup_steps or warmup_epochs"},
    {{"schedule.warmup_steps"},
     [](const Config& c) { return c.schedule().warmup_epochs() == 0; },
     "together with schedule.warmup_epochs"},
    {{"train.ema_tau"}, [](const Config& c) { return c.train().ema_decay() > 0; }, "without train.ema_decay"},
};

// Says where the field is not read because of the task; empty if it is read.
std::string unread_where(const Config& config, const std::string& field) {
  for (const auto& [name, registered] : tasks().all())
    for (const std::string& own : registered.task->own_fields())
      if (name != task_name(config) && (field == own || field.starts_with(own + ".")))
        return "outside of " + name;
  return "";
}

// Says where the field has no effect; empty if it has one.
std::string idle_where(const Config& config, const std::string& field) {
  if (std::string where = unread_where(config, field); !where.empty()) return where;
  for (const Dependence& d : kDependences)
    if (std::ranges::find(d.fields, field) != d.fields.end() && !d.works(config)) return d.without;
  return "";
}

// The same model, with everything else unset.
Config defaults_beside(const Config& config) {
  Config bare;
  bare.mutable_model()->set_type(config.model().type());
  bare.mutable_model()->mutable_backbone()->set_type(config.model().backbone().type());
  if (unread_where(config, "criterion.class_loss").empty())
    bare.mutable_criterion()->set_class_loss(config.criterion().class_loss());
  return resolve_config(bare);
}

}  // namespace

std::vector<IdleField> idle_fields(const Config& config) {
  std::vector<IdleField> idle;
  for (const ConfigChange& set : config_changes(defaults_beside(config), config))
    if (const std::string where = idle_where(config, set.field); !where.empty())
      idle.push_back({set.field, fmt::format("note: {}: {} does nothing {}", set.field, set.to, where)});
  return idle;
}

}  // namespace saccade
