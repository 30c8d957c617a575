// Tests that fields that are set and do nothing are named before training, and only they.
#include "train/config/schema/config_changes.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace saccade {
namespace {

std::vector<std::string> idle_in(const std::string& text) {
  std::vector<std::string> notes;
  for (const IdleField& idle : idle_fields(resolve_config(parse_config(text, "test")))) {
    EXPECT_TRUE(idle.note.starts_with("note: " + idle.field + ": ")) << idle.note;
    notes.push_back(idle.note);
  }
  return notes;
}

TEST(IdleFields, AreNamedWithWhatTheyBelongTo) {
  const std::pair<const char*, const char*> rows[] = {
      {"data { augment { scale_min: 0.5 } }",
       "note: data.augment.scale_min: 0.5 does nothing without data.augment.height"},
      {"data { augment { scale_max: 2 } }",
       "note: data.augment.scale_max: 2 does nothing without data.augment.height"},
      {"data { augment { aspect_jitter: 2 } }", "note: data.augment.aspect_jitter: 2 does nothing without"},
      {"data { augment { pad_as_image: true } }",
       "note: data.augment.pad_as_image: true does nothing without"},
      {"data { augment { height: 64 width: 64 pad_as_image: true } }",
       "pad_as_image: true does nothing without a random scale"},
      {"data { augment { height: 64 width: 64 short_sides: [32] } }",
       "short_sides: [32] does nothing with the fixed size"},
      {"data { augment { crop_ratio_max: 2 } }",
       "crop_ratio_max: 2 does nothing without data.augment.crop_area_min"},
      {"data { augment { crop_probability: 0 crop_min: 100 } }",
       "crop_min: 100 does nothing without data.augment.crop_probability"},
      {"data { augment { color_probability: 0.5 } }", "color_probability: 0.5 does nothing without"},
      {"data { augment { mosaic_side: 64 } }", "mosaic_side: 64 does nothing without data.augment.mosaic"},
      {"data { augment { strong_stop_epoch: 3 } }",
       "strong_stop_epoch: 3 does nothing without a strong augmentation"},
      {"data { val_height: 64 val_width: 64 val_short_side: 100 }",
       "val_short_side: 100 does nothing with the fixed size"},
      {"data { repeat_threshold: 0.5 }",
       "note: data.repeat_threshold: 0.5 does nothing without data.sampling: repeat_factor"},
      {"data { val_fraction: 0.5 }", "note: data.val_fraction: 0.5 does nothing without data.folder"},
      {"criterion { label_smoothing: 0.1 }",
       "note: criterion.label_smoothing: 0.1 does nothing outside of classification"},
      {"criterion { no_object_weight: 0.5 }", "does nothing without criterion.class_loss: softmax"},
      {"criterion { class_loss: softmax focal_gamma: 1 }", "does nothing with criterion.class_loss: softmax"},
      {"criterion { extra_group_repeat: 4 }", "does nothing without model.transformer.extra_query_groups"},
      {"model { transformer { denoising { box_noise: 0.3 } } }",
       "box_noise: 0.3 does nothing without model.transformer.denoising.queries"},
      {"model { type: \"classifier\" } criterion { bbox_weight: 3 }",
       "note: criterion.bbox_weight: 3 does nothing outside of detection"},
      {"model { type: \"classifier\" } data { augment { min_box_side: 3 } }",
       "min_box_side: 3 does nothing without boxes"},
      {"model { type: \"semantic_fpn\" } data { labels: category_id }",
       "note: data.labels: category_id does nothing outside of detection"},
      {"model { type: \"classifier\" } data { mix { probability: 0.5 } }",
       "data.mix.probability: 0.5 does nothing without"},
      {"optimizer { momentum: 0.5 }",
       "note: optimizer.momentum: 0.5 does nothing with optimizer.type: adamw"},
      {"optimizer { type: \"sgd\" beta1: 0.5 }",
       "note: optimizer.beta1: 0.5 does nothing with optimizer.type: sgd"},
      {"schedule { type: \"constant\" drop_epochs: [3] }",
       "note: schedule.drop_epochs: [3] does nothing without schedule.type: step"},
      {"schedule { final_ratio: 0.5 }", "does nothing without schedule.type: cosine, flat_cosine or poly"},
      {"schedule { type: \"cosine\" flat_epochs: 3 }", "does nothing without schedule.type: flat_cosine"},
      {"schedule { warmup_ratio: 0.5 }", "does nothing without schedule.warmup_steps or warmup_epochs"},
      {"schedule { warmup_steps: 5 warmup_epochs: 1 }",
       "note: schedule.warmup_steps: 5 does nothing together with schedule.warmup_epochs"},
      {"train { ema_tau: 2000 }", "note: train.ema_tau: 2000 does nothing without train.ema_decay"},
  };
  for (const auto& [text, part] : rows) {
    const std::vector<std::string> notes = idle_in(text);
    ASSERT_EQ(notes.size(), 1U) << text;
    EXPECT_NE(notes[0].find(part), std::string::npos) << notes[0];
  }
}

TEST(IdleFields, WhatIsReadIsNotNamed) {
  for (const char* text : {"", "train { ema_tau: 2000 ema_decay: 0.9 }",
                           "data { sampling: repeat_factor repeat_threshold: 0.5 }",
                           "data { augment { height: 64 width: 64 scale_min: 0.5 pad_as_image: true } }",
                           "criterion { class_loss: softmax no_object_weight: 0.5 }",
                           "model { type: \"classifier\" } criterion { label_smoothing: 0.1 }",
                           "model { type: \"dino\" transformer { denoising { box_noise: 0.4 } } }",
                           "optimizer { type: \"sgd\" momentum: 0.5 }",
                           "data { augment { mosaic: 0.5 mosaic_side: 64 strong_stop_epoch: 2 } }"})
    EXPECT_TRUE(idle_in(text).empty()) << text << ": " << idle_in(text).at(0);
}

TEST(IdleFields, NoRecipeHasAny) {
  for (const auto& file : std::filesystem::directory_iterator(SACCADE_SOURCE_DIR "/configs")) {
    if (file.path().extension() != ".textproto") continue;
    const auto idle = idle_fields(resolve_config(load_config(file.path().string())));
    EXPECT_TRUE(idle.empty()) << file.path() << ": " << idle.at(0).note;
  }
}

}  // namespace
}  // namespace saccade
