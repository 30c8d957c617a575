#include "train/config/options.h"

#include <algorithm>

namespace saccade {

namespace {

Filter filter_of(const Config& config) {
  return config.data().interpolation() == config::bicubic ? Filter::kBicubic : Filter::kBilinear;
}

}  // namespace

AugmentOptions train_augment(const Config& config) {
  const config::Augment& a = config.data().augment();
  AugmentOptions o;
  o.filter = filter_of(config);
  o.horizontal_flip = a.horizontal_flip();
  o.vertical_flip = a.vertical_flip();
  o.rotation90 = a.rotate90();
  o.min_visible = a.min_visible();
  if (a.height() > 0) {
    bool jitter = a.scale_min() != 1 || a.scale_max() != 1 || a.max_stretch() != 1;
    o.resize = a.crop_area_min() > 0 ? AugmentOptions::Resize::kRandomArea
               : jitter              ? AugmentOptions::Resize::kScaleJitter
                                     : AugmentOptions::Resize::kFixed;
    o.area_min = a.crop_area_min();
    o.area_max = a.crop_area_max();
    o.ratio_min = a.crop_ratio_min();
    o.ratio_max = a.crop_ratio_max();
    o.fixed_height = a.height();
    o.fixed_width = a.width();
    o.scale_min = a.scale_min();
    o.scale_max = a.scale_max();
    o.max_stretch = a.max_stretch();
    o.pad_as_image = a.pad_as_image();
  } else {
    o.crop_probability = a.crop_probability();
    o.crop_short_sides.assign(a.crop_short_sides().begin(), a.crop_short_sides().end());
    if (o.crop_short_sides.empty()) o.crop_short_sides = {400, 500, 600};
    o.crop_min = a.crop_min();
    o.crop_max = a.crop_max();
    o.resize = AugmentOptions::Resize::kShortSide;
    o.short_sides.assign(a.short_sides().begin(), a.short_sides().end());
    if (o.short_sides.empty())
      for (int64_t side = 480; side <= 800; side += 32) o.short_sides.push_back(side);
    o.max_long_side = a.long_side();
  }
  o.brightness = a.brightness();
  o.contrast = a.contrast();
  o.saturation = a.saturation();
  o.hue = a.hue();
  bool colors = o.brightness > 0 || o.contrast > 0 || o.saturation > 0 || o.hue > 0;
  o.color_probability = colors ? a.color_probability() : 0;
  o.erase_probability = a.erase_probability();
  kernels::ImageNormalization norm = image_normalization(config);
  std::copy(norm.mean.begin(), norm.mean.end(), o.noise_mean.begin());
  std::copy(norm.std.begin(), norm.std.end(), o.noise_std.begin());
  return o;
}

AugmentOptions eval_augment(const Config& config) {
  const config::Data& data = config.data();
  AugmentOptions o;
  o.filter = filter_of(config);
  if (data.val_height() > 0) {
    o.resize = data.val_center() > 0 ? AugmentOptions::Resize::kCenter : AugmentOptions::Resize::kFixed;
    if (data.val_center() > 0) o.center_share = data.val_center();
    o.fixed_height = data.val_height();
    o.fixed_width = data.val_width();
  } else {
    o.resize = AugmentOptions::Resize::kShortSide;
    o.short_sides = {data.val_short_side()};
    o.max_long_side = data.val_long_side();
  }
  return o;
}

LoaderOptions train_loader(const Config& config) {
  const config::Data& data = config.data();
  LoaderOptions o;
  o.batch_size = data.batch_size();
  o.shuffle = true;
  o.drop_last = data.drop_last();
  o.seed = config.seed();
  o.augment = train_augment(config);
  o.mix = {data.mix().probability(), data.mix().mixup_alpha(), data.mix().cutmix_alpha(),
           data.mix().cutmix_probability()};
  o.pad_multiple = data.pad_multiple();
  o.threads = data.workers();
  o.prefetch = data.prefetch();
  o.cache_mb = data.cache_mb();
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

OptimizerOptions optimizer_options(const config::Optimizer& o) {
  OptimizerOptions out{.type = o.type(),
                       .learning_rate = o.learning_rate(),
                       .weight_decay = o.weight_decay(),
                       .no_decay_1d = o.no_decay_1d(),
                       .update = {o.beta1(), o.beta2(), o.epsilon(), o.momentum()},
                       .clip_norm = o.clip_norm(),
                       .groups = {}};
  for (const auto& g : o.group())
    out.groups.push_back({g.regex(), g.lr_mult(),
                          g.has_weight_decay() ? std::optional<double>(g.weight_decay()) : std::nullopt,
                          g.frozen()});
  return out;
}

ScheduleOptions schedule_options(const config::Schedule& s) {
  return {s.type(),
          s.warmup_steps(),
          s.warmup_epochs(),
          s.warmup_ratio(),
          {s.drop_epochs().begin(), s.drop_epochs().end()},
          s.gamma(),
          s.final_ratio()};
}

DataPaths data_paths(const config::Split& split) {
  return {split.annotations(), split.images(), split.format()};
}

const DetectionEvaluator& detection_evaluator(const Config& config) {
  const std::string& name = config.eval().evaluator();
  return detection_evaluators().find(name.empty() ? "coco" : name, "eval.evaluator");
}

const ClassificationEvaluator& classification_evaluator(const Config& config) {
  const std::string& name = config.eval().evaluator();
  return classification_evaluators().find(name.empty() ? "top_k" : name, "eval.evaluator");
}

LabelScheme label_scheme(const Config& config) {
  return config.data().labels() == config::category_id ? LabelScheme::kCategoryId : LabelScheme::kContiguous;
}

Precision precision_of(const Config& config) {
  return {config.precision() == config::bf16 ? DType::kBF16 : DType::kF32,
          config.precision() == config::tf32 ? MathMode::kTf32 : MathMode::kExact};
}

void set_precision(const Precision& precision) {
  execution().compute = precision.compute;
  execution().math = precision.math;
}

}  // namespace saccade
