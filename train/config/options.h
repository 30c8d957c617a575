// The configuration as the option structs of the data pipeline.
#pragma once

#include "autograd/scope.h"
#include "core/kernels/normalize_image/normalize_image.h"
#include "core/types/image_size.h"
#include "data/evaluation/evaluators.h"
#include "data/formats/joining/united_paths.h"
#include "data/loading/loader.h"
#include "train/config/config.h"

namespace saccade {

// Training: either a fixed size (stretched, or with scale_min/scale_max scaled, cut and padded, or with
// crop_area_min a random window of the image), or DETR's crops and short sides. An empty list of short sides
// is DETR's.
AugmentFields augment_fields(const Config& config);
// Evaluation: val_height x val_width (stretched, or with val_crop_pct the centre), or the short side.
Augmentation eval_augment(const Config& config);
// What an image has at evaluation: the fixed size, or the short and the long side. Sides that are given,
// not 0, count instead.
ImageSize eval_size(const Config& config, int64_t height = 0, int64_t width = 0);

// Shuffled, endless batches of the training set.
LoaderOptions train_loader(const Config& config);
// All images once, in order. batch_size 0: the configuration's.
LoaderOptions eval_loader(const Config& config, int64_t batch_size = 0);

kernels::ImageNormalization image_normalization(const Config& config);
LabelMapOptions label_map_options(const Config& config);
// What the task must find in a set, and what its files mean.
void set_needs(DataPaths& paths, const Config& config);
// Which classes count, as data.class_map and data.classes say.
ClassChoice class_choice(const Config& config);
// Whether the model predicts masks.
bool has_masks(const Config& config);
// Whether the training set is united of several, so that their classes are known by names alone.
bool has_several_sets(const Config& config);
// What a configuration says of folders in which data sets are found.
PlaceOptions place_options(const Config& config);
// Where the splits are: as data.train and data.val say, or found in data.folder and data.more_folders, which
// is reported in lines that are added to notes. Throws InputError where the folders hold no training images.
DataSplits data_splits(const Config& config, std::vector<std::string>* notes = nullptr);
// By eval.evaluator, which names one of the model's task; unset: the usual one.
// Throws InputError for an unknown one.
const EvaluatorSpec& evaluator_of(const Config& config);
// The number that a category has for the model.
LabelScheme label_scheme(const Config& config);

// What products run in: execution().compute and execution().math.
struct Precision {
  DType compute = DType::kF32;
  MathMode math = MathMode::kExact;
};
Precision precision_of(const Config& config);
// `auto` becomes bf16 where the device gains by it, else f32, or what a run that continues has: `run` is its
// folder, or "". Returns what to say of it; "" where the configuration names a precision.
std::string resolve_precision(Config& config, Device device, const std::string& run = "");
// Until the end of the thread's ExecutionScope.
void set_precision(const Precision& precision);

}  // namespace saccade
