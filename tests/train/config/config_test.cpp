// Tests the configuration: reading, --set, validation, the resolved text and the Args of the model. To add a
// mistake: a line in BadFiles, BadSets or BadValues with a part of the message that it must give.
#include "train/config/config.h"

#include <gtest/gtest.h>

#include "core/files/nearest.h"
#include "core/tensor/error.h"
#include "tests/input_error.h"
#include "train/config/options.h"

namespace saccade {
namespace {

void expect_part(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "message: " << message << "\nexpected part: " << part;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(Nearest, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("queries", "queries"), 0u);
  EXPECT_EQ(edit_distance("querise", "queries"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(nearest_name("bach", {"val", "mean", "batch_size"}), "batch_size");
  EXPECT_EQ(nearest_name("bach_size", {"workers", "batch_size", "prefetch"}), "batch_size");
  EXPECT_EQ(nearest_name("DFINE-N-COCO", {"dfine_s_coco", "dfine_n_coco"}), "dfine_n_coco");
  EXPECT_EQ(nearest_name("height", {"width", "val_height"}), "val_height");
  EXPECT_EQ(nearest_name("cta", {"dog", "cat"}), "cat");
  for (const char* far : {"foo", "", "x", "\xff\xfe", "completely_other"})
    EXPECT_EQ(nearest_name(far, {"model", "seed", "data", "precision", "y"}), "") << far;
  EXPECT_EQ(did_you_mean("a"), ", did you mean \"a\"?");
  EXPECT_EQ(did_you_mean(""), "");
}

TEST(Config, BadFilesNameLineColumnAndWhatWasExpected) {
  struct Case {
    const char *text, *part;
  };
  const Case kBadFiles[] = {
      {"model {\n  transformer { querys: 3 }\n}",
       "F:2:17: no field \"querys\" in model.transformer, did you mean \"queries\"?"},
      {"modle { }", "F:1:1: no field \"modle\" in the configuration, did you mean \"model\"?"},
      {"hello\n", "F:1:1: no field \"hello\" in the configuration, expected one of model"},
      {"seed: 1  # {\nmodel {\n  type: \"a}{\"\n backbone <\n  foo\n : 1 > }",
       "F:5:3: no field \"foo\" in model.backbone"},
      {"model { } data { augment { } foo: 1 }", "F:1:30: no field \"foo\" in data ("},
      {"data {\n  batch_size: \"four\"\n}",
       "F:2:15: \"four\" is not valid, expected a whole number from 1 to 65536 (in `batch_size: \"four\"`)"},
      {"data { batch_size: 2.5 }", "\"2.5\" is not valid, expected a whole number from 1 to 65536"},
      {"data { batch_size: 99999999999 }",
       "F:1:20: \"99999999999\" is not valid, expected a whole number from 1 to 65536"},
      {"optimizer { learning_rate: fast }", "\"fast\" is not valid, expected a number"},
      {"deterministic: maybe", "deterministic"},
      {"precision: fp16", "\"fp16\" is not a value of precision, expected one of f32, tf32, bf16, auto"},
      {"criterion { class_loss: hinge }", "expected one of focal, varifocal, softmax, mal, ia_bce"},
      {"seed: 1\nseed: 2", "F:2:5: the field \"seed\" is given more than once"},
      {"data { train { images: \"x }", "F:1:"},
      {"model {", "F:1:"},
      {"optimizer { group { lr_mult: 2 } }", "regex"},
  };
  for (const Case& c : kBadFiles) expect_part(input_error([&] { parse_config(c.text, "F"); }), c.part);
  expect_part(input_error([] { load_config("/no/such/file.textproto"); }),
              "/no/such/file.textproto: cannot read the file: No such file or directory");
  expect_part(input_error([] { load_config("/tmp"); }), "/tmp: is a folder, expected a configuration file");
}

TEST(Config, SetChangesEveryKindOfField) {
  Config c;
  for (const char* set : {"data.batch_size=8",
                          "seed=18446744073709551615",
                          "precision=bf16",
                          "deterministic=false",
                          "optimizer.learning_rate=1e-3",
                          "data.train.images=/a b/c=d",
                          "model.type=\"detr\"",
                          "data.augment.short_sides=480,512, 544",
                          "data.mean=[0.5, 0.5,0.5]",
                          "train.recompute=a,b",
                          "model.backbone.arg.points=4",
                          "model.backbone.arg.scale=0.5",
                          "model.backbone.arg.on=true",
                          "model.backbone.arg.name=abc",
                          "model.backbone.arg.sizes=[1,2]",
                          "model.backbone.arg.weights=[1,0.5]",
                          "model.transformer.encoder_attention.type=ms_deform_attn",
                          "model.transformer.encoder_attention.arg.points=2",
                          "optimizer.group={regex: \"bias\" lr_mult: 0.5}",
                          "optimizer.group={regex: \"norm\"}",
                          "optimizer.group.1.weight_decay=0",
                          "data.val={annotations: \"v.json\"}"})
    ASSERT_EQ(input_error([&] { apply_set(c, set); }), "no error") << set;
  EXPECT_EQ(c.data().batch_size(), 8);
  EXPECT_EQ(c.seed(), UINT64_MAX);
  EXPECT_EQ(c.precision(), config::bf16);
  EXPECT_FALSE(c.deterministic());
  EXPECT_EQ(c.optimizer().learning_rate(), 1e-3);
  EXPECT_EQ(c.data().train().images(), "/a b/c=d");
  EXPECT_EQ(c.model().type(), "detr");
  EXPECT_EQ(c.data().augment().short_sides_size(), 3);
  EXPECT_EQ(c.data().augment().short_sides(2), 544);
  EXPECT_EQ(c.data().mean_size(), 3);
  EXPECT_EQ(c.train().recompute(1), "b");
  EXPECT_EQ(c.optimizer().group_size(), 2);
  EXPECT_TRUE(c.optimizer().group(1).has_weight_decay());
  EXPECT_EQ(c.data().val().annotations(), "v.json");
  apply_set(c, "data.augment.short_sides=[]");
  EXPECT_EQ(c.data().augment().short_sides_size(), 0);
  apply_set(c, "optimizer.group=[]");
  EXPECT_EQ(c.optimizer().group_size(), 0);
  apply_set(c, "model.backbone.arg.points=5");  // replaced, not added

  Args args = model_args(c);
  const Args& b = args.get_section("backbone");
  EXPECT_EQ(b.get_int("points", 0), 5);
  EXPECT_EQ(b.get_float("scale", 0), 0.5);
  EXPECT_TRUE(b.get_bool("on", false));
  EXPECT_EQ(b.get_string("name", ""), "abc");
  EXPECT_EQ(b.get_ints("sizes", {}), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(b.get_floats("weights", {}), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(args.get_section("transformer").get_section("encoder_attention").get_int("points", 0), 2);
}

TEST(Config, BadSetsNameTheNearestPath) {
  struct Case {
    const char *set, *part;
  };
  const Case kBadSets[] = {
      {"data.bach_size=4", "no field \"bach_size\" in data, did you mean \"data.batch_size\"?"},
      {"trian.max_steps=4", "no field \"trian\" in the configuration, did you mean \"train\"?"},
      {"lr=1", "no field \"lr\" in the configuration, did you mean \"optimizer.learning_rate\"?"},
      {"optimizer.lr=1", "no field \"lr\" in optimizer, did you mean \"optimizer.learning_rate\"?"},
      {"batch_size=1", "use --batch N instead"},
      {"data.height=1", "no field \"height\" in data, did you mean \"data.augment.height\"?"},
      {"data.augment.flip=2",
       "no field \"flip\" in data.augment, did you mean \"data.augment.horizontal_flip\"?"},
      {"data.batch_size=four", "--set data.batch_size: \"four\" is not valid, expected a whole number"},
      {"data.batch_size=", "expected a whole number"},
      {"data.batch_size=1 2", "expected a whole number"},
      {"seed=-1", "--set seed: \"-1\" is not valid, expected a whole number from 0 to 18446744073709551615"},
      {"seed=100000000000000000000", "expected a whole number from 0 to 18446744073709551615"},
      {"train.epochz.x=1", "did you mean \"train.epochs\"?"},
      {"foo=1", "no field \"foo\" in the configuration, expected one of model, criterion, data, "},
      {"data.foo=1", "no field \"foo\" in data (saccade describe config lists its fields)"},
      {"deterministic=perhaps", "expected true or false"},
      {"precision=fp16", "expected one of f32, tf32, bf16, auto"},
      {"data=3", "is a group of fields"},
      {"train={max_stepps: 4}", "--set train: no field \"max_stepps\" in train, did you mean \"max_steps\"?"},
      {"train={max_steps: many}", "--set train: \"many\" is not valid, expected a whole number"},
      {"seed.x=3", "so it has no fields of its own"},
      {"optimizer.group.0.lr_mult=1", "which has 0 elements"},
      {"model.backbone.arg=3", "is a group of fields"},
      {"data.augment.short_sides=1,two", "\"two\" is not valid"},
      {"data.batch_size", "expected path.to.field=value"},
      {"=4", "expected path.to.field=value"},
      {".=4", "no field"},
  };
  for (const Case& c : kBadSets) {
    Config config;
    expect_part(input_error([&] { apply_set(config, c.set); }), c.part);
  }
}

TEST(Config, BracesSayWhatTheyTakeAway) {
  Config config =
      parse_config("train { max_steps: 4 eval_every_epochs: 2 } data { val { images: \"a\" } }", "c");
  std::vector<std::string> notes;
  apply_set(config, "train={max_steps: 5 eval_every_epochs: 3}", &notes);
  apply_set(config, "data.val={}", &notes);  // which empties it
  EXPECT_TRUE(notes.empty());
  apply_set(config, "train={ema_decay: 0.9}", &notes);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "note: --set train: replaces the whole group; 2 fields are no longer set: train.max_steps, ...");
}

TEST(Config, BadValuesNameTheField) {
  struct Case {
    const char *set, *part;
  };
  const Case kBadValues[] = {
      {"data.batch_size=0", "data.batch_size: 0 is out of range, expected 1 to 65536"},
      {"optimizer.learning_rate=0", "optimizer.learning_rate: 0 is out of range, expected more than 0"},
      {"optimizer.learning_rate=nan", "optimizer.learning_rate"},
      {"optimizer.learning_rate=-inf", "optimizer.learning_rate"},
      {"optimizer.type=adam", "optimizer.type: \"adam\" is not known, expected one of adamw, "},
      {"optimizer.group={regex: \"(\"}", "optimizer.group.0.regex: \"(\" is not a regular expression"},
      {"optimizer.group={regex: \"a\" lr_mult: -1}", "optimizer.group.0.lr_mult: -1"},
      {"schedule.type=linear", "expected one of constant, cosine, "},
      {"schedule.drop_epochs=40,30", "expected increasing values"},
      {"data.mean=0.5", "data.mean: 1 value, expected 3"},
      {"data.std=0,1,1", "data.std.0: 0 is out of range"},
      {"data.val_height=64", "data.val_width = 0"},
      {"data.augment.width=64", "expected both to be set"},
      {"data.augment.crop_min=700", "exceeds crop_max"},
      {"data.augment.horizontal_flip=1.5", "data.augment.horizontal_flip: 1.5"},
      {"data.augment.short_sides=480,0", "data.augment.short_sides.1: 0"},
      {"train.log_every=0", "train.log_every: 0"},
      {"data.augment.crop_area_min=0.5", "data.augment.crop_area_min: 0.5 without height and width"},
      {"data.augment.crop_ratio_min=3", "data.augment.crop_ratio_min: 3 exceeds crop_ratio_max"},
      {"data.val_crop_pct=0.9", "data.val_crop_pct: 0.9 without data.val_height"},
      {"data.augment.batch_mixup=0.5", "data.augment.batch_mixup: needs batches without padding, expected"},
      {"data.augment.multi_scale_heights=64,96",
       "data.augment.multi_scale_heights: needs batches without padding, expected"},
      {"data.augment={height: 64 width: 64 scale_max: 2 multi_scale_heights: 32}",
       "data.augment.multi_scale_heights: needs"},
      {"data.augment={height: 1 width: 60000 multi_scale_heights: [1, 65536]}",
       "data.augment.multi_scale_heights: makes images of"},
      {"data.augment={strong_start_epoch: 4 strong_stop_epoch: 4}", "more than strong_start_epoch = 4, or 0"},
      {"data.augment={strong_start_epoch: 4 mosaic_stop_epoch: 3}",
       "data.augment.mosaic_stop_epoch: 3, expected"},
      {"schedule.warmup_shape=cubic", "schedule.warmup_shape: \"cubic\""},
      {"data.mix.mixup_alpha=1", "expected model.type \"classifier\", got \"deformable_detr\""},
      {"model.type=classifier", "data.augment.height: not set"},
      {"train.recompute=[", "train.recompute.0"},
  };
  for (const Case& c : kBadValues) {
    Config config;
    apply_set(config, c.set);
    expect_part(input_error([&] { validate_config(config); }), c.part);
  }
  EXPECT_EQ(input_error([] { validate_config(Config()); }), "no error");
}

TEST(Config, TrainingNeedsDataAndAnEnd) {
  Config c;
  expect_part(input_error([&] { validate_for_training(c); }), "data.train.annotations: not set");
  apply_set(c, "data.train.annotations=a.json");
  apply_set(c, "data.train.images=a");
  EXPECT_EQ(input_error([&] { validate_for_training(c); }), "no error");
  apply_set(c, "data.val.images=v");
  expect_part(input_error([&] { validate_for_training(c); }), "data.val.annotations: not set");
  apply_set(c, "data.val.annotations=v.json");
  apply_set(c, "train.epochs=0");
  expect_part(input_error([&] { validate_for_training(c); }), "train.max_steps");
  for (const auto& [set, error] :
       {std::pair{"train={eval_every_epochs: 0 patience: 3}",
                  "train.patience: 3, but train.eval_every_epochs = 0 evaluates only at the end"},
        {"schedule={type: \"flat_cosine\" flat_epochs: 40 end_epochs: 10}", "no error"}}) {
    c.clear_train();
    c.clear_schedule();
    apply_set(c, set);
    expect_part(input_error([&] { validate_for_training(c); }), error);
  }
}

TEST(Config, ClassifiersNeedFoldersOnly) {
  Config c = parse_config(
      "model { type: \"classifier\" } data { augment { height: 8 width: 8 } val_height: 8 val_width: 8 }",
      "F");
  expect_part(input_error([&] { validate_for_training(c); }),
              "data.train.images: not set, expected a folder with one sub-folder of images for each class");
  apply_set(c, "data.train.images=a");
  EXPECT_EQ(input_error([&] { validate_for_training(c); }), "no error");
  apply_set(c, "data.val.annotations=v.json");
  expect_part(input_error([&] { validate_for_training(c); }),
              "data.val.annotations: \"v.json\", but a classifier reads the classes from the folders");
  c.mutable_data()->mutable_mix()->set_cutmix_alpha(1);
  EXPECT_EQ(input_error([&] { validate_config(c); }), "no error");
  for (const char* padding : {"data.pad_multiple=16", "data.augment.scale_min=0.5"}) {
    Config padded = c;
    apply_set(padded, padding);
    expect_part(input_error([&] { validate_config(padded); }), "data.mix: mixes images without padding");
  }
  apply_set(c, "model.transformer.queries=3");
  expect_part(input_error([&] { validate_config(c); }), "model.transformer: is set");
}

TEST(Config, ResolvedTextIsCompleteAndAFixedPoint) {
  Config c =
      parse_config("data { augment { short_sides: [480, 512] } } optimizer { group { regex: \"b\" } }", "F");
  std::string text = config_text(c);
  for (const char* part : {"learning_rate: 0.0002", "depth: 50", "short_sides: [480, 512]", "lr_mult: 1",
                           "seed: 42", "precision: f32", "max_detections: 100"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
  // Fields whose absence has a meaning stay absent.
  for (const char* part : {"encoder_attention", " val {", "annotations"})
    EXPECT_EQ(text.find(part), std::string::npos) << part << " appears in\n" << text;
  EXPECT_EQ(config_text(parse_config(text, "F")), text);
}

TEST(Config, ModelArgsCarryDefaultsAndRefuseDoubleKeys) {
  Args args = model_args(Config());
  EXPECT_EQ(args.path(), "model");
  EXPECT_EQ(args.get_string("type", ""), "deformable_detr");
  EXPECT_EQ(args.get_section("transformer").get_int("queries", -1), 300);
  EXPECT_TRUE(args.get_section("transformer").get_bool("aux_loss", false));
  EXPECT_EQ(args.get_section("backbone").get_int("depth", -1), 50);
  EXPECT_FALSE(args.get_section("backbone").has("blocks"));
  EXPECT_FALSE(args.get_section("transformer").has("encoder_attention"));
  auto bad = [](const char* text) { return input_error([&] { model_args(parse_config(text, "F")); }); };
  expect_part(bad("model { backbone { arg { key: \"depth\" int: 3 } } }"),
              "model.backbone: argument \"depth\" is given twice");
  expect_part(bad("model { backbone { arg { key: \"a\" int: 3 ints: [1, 2] } } }"), "several values");
}

TEST(Config, OtherBackbonesGetNoDefaultsOfResNet) {
  Config c =
      parse_config("model { backbone { type: \"vit\" width: 3 arg { key: \"depth\" int: 12 } } }", "F");
  for (const Config& config : {c, parse_config(config_text(c), "resolved")}) {
    Args model = model_args(config);
    const Args& b = model.get_section("backbone");
    EXPECT_EQ(b.get_int("depth", 0), 12);
    EXPECT_EQ(b.get_int("width", 0), 3);  // set by hand: the backbone may refuse it
    EXPECT_FALSE(b.has("frozen_stages"));
  }
}

TEST(Config, AugmentationFollowsTheChosenSize) {
  Config c;  // DETR's
  using StepNames = std::vector<std::string>;
  auto names = [](const Augmentation& steps) {
    StepNames all;
    for (const AugmentStep& step : steps) all.push_back(step.name);
    return all;
  };
  Augmentation detr = train_loader(c).augment;
  EXPECT_EQ(names(detr), (StepNames{"horizontal_flip", "size_crop", "short_side_resize"}));
  EXPECT_EQ(detr[1].probability, 0.5);
  EXPECT_EQ(augment_fields(c).integers("short_sides").size(), 11u);
  EXPECT_EQ(augment_fields(c).integers("short_sides").back(), 800);
  auto evaluated = [&] {
    Sample sample;
    sample.image = Image(300, 400);
    Rng rng(0);
    sample = augment(std::move(sample), eval_augment(c), rng);
    return ImageSize{sample.image.height, sample.image.width};
  };
  EXPECT_EQ(evaluated(), (ImageSize{800, 1066}));
  for (const char* set :
       {"data.augment.height=64", "data.augment.width=96", "data.augment.hue=0.1", "data.val_height=64",
        "data.val_width=96", "data.std=0.25,0.5,1", "precision=bf16", "eval.batch_size=3"})
    apply_set(c, set);
  EXPECT_EQ(names(train_loader(c).augment), (StepNames{"horizontal_flip", "fixed_resize", "color_jitter"}));
  EXPECT_EQ(train_loader(c).augment[2].probability, 1);
  EXPECT_EQ(evaluated(), (ImageSize{64, 96}));
  apply_set(c, "data.augment.scale_max=1.5");
  EXPECT_EQ(names(train_loader(c).augment), (StepNames{"horizontal_flip", "scale_jitter", "color_jitter"}));
  EXPECT_EQ(image_normalization(c).std[0], 0.25f);
  EXPECT_EQ(image_normalization(c).mean[0], 0.485f);
  EXPECT_EQ(precision_of(c).compute, DType::kBF16);
  EXPECT_EQ(precision_of(c).math, MathMode::kExact);
  apply_set(c, "precision=tf32");
  EXPECT_EQ(precision_of(c).compute, DType::kF32);
  EXPECT_EQ(precision_of(c).math, MathMode::kTf32);
  EXPECT_EQ(eval_loader(c).batch_size, 3);
  EXPECT_EQ(eval_loader(c, 7).batch_size, 7);
  EXPECT_EQ(train_loader(c).batch_size, 2);
  apply_set(
      c,
      "data.augment={height: 64 width: 64 mosaic: 0.5 batch_mixup: 0.5 multi_scale_heights: [32, 64, 64] "
      "strong_start_epoch: 4 mosaic_stop_epoch: 34 strong_stop_epoch: 58}");
  const LoaderOptions loader = train_loader(c);
  EXPECT_EQ(loader.augment[0].name, "mosaic");
  EXPECT_EQ(loader.augment[0].epochs.begin, 4);
  EXPECT_EQ(loader.augment[0].epochs.end, 34);
  EXPECT_EQ(loader.batch_mixup.probability, 0.5);
  EXPECT_EQ(loader.batch_mixup.epochs.end, 34);
  EXPECT_EQ(loader.multi_scale.heights, (std::vector<int64_t>{32, 64, 64}));
  EXPECT_EQ(loader.multi_scale.epochs.begin, 0);
  EXPECT_EQ(loader.multi_scale.epochs.end, 58);
}

}  // namespace
}  // namespace saccade
