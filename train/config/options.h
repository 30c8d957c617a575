// Translates the configuration into the option structs of the data pipeline.
#pragma once

#include "autograd/scope.h"
#include "core/kernels/normalize_image/normalize_image.h"
#include "core/types/image_size.h"
#include "data/evaluation/evaluators.h"
#include "data/formats/joining/united_paths.h"
#include "data/loading/loader.h"
#include "train/config/config.h"

namespace saccade {

// Training: either a fixed size (stretched; scaled, cut and padded with scale_min/scale_max; or a random
// window of the image with crop_area_min), or DETR's crops and short sides. An empty list of short sides
// means DETR's.
AugmentFields augment_fields(const Config& config);
// Evaluation: val_height x val_width (stretched, or the centre with val_crop_pct), or the short side.
Augmentation eval_augment(const Config& config);
// Returns the size of images at evaluation: the fixed size, or the short and the long side. Given sides that
// are not 0 take precedence.
ImageSize eval_size(const Config& config, int64_t height = 0, int64_t width = 0);

// Shuffled, endless batches of the training set.
LoaderOptions train_loader(const Config& config);
// All images once, in order. If batch_size is 0, the configuration's is used.
LoaderOptions eval_loader(const Config& config, int64_t batch_size = 0);

kernels::ImageNormalization image_normalization(const Config& config);
LabelMapOptions label_map_options(const Config& config);
// Sets what the task must find in a data set, and what its files mean.
void set_needs(DataPaths& paths, const Config& config);
// Which classes are used, according to data.class_map and data.classes.
ClassChoice class_choice(const Config& config);
// Whether the model predicts masks.
bool has_masks(const Config& config);
// Whether the training set is merged from several, so that classes are identified by name alone.
bool has_several_sets(const Config& config);
// How data sets are searched for in folders, according to the configuration.
PlaceOptions place_options(const Config& config);
// Returns the splits: those of data.train and data.val, or those found in data.folder and data.more_folders,
// which adds lines to notes. Throws InputError if the folders hold no training images.
DataSplits data_splits(const Config& config, std::vector<std::string>* notes = nullptr);
// Returns the evaluator that eval.evaluator names, among those of the model's task; if unset, the usual one.
// Throws InputError for an unknown one.
const EvaluatorSpec& evaluator_of(const Config& config);
// How category ids map to the labels of the model.
LabelScheme label_scheme(const Config& config);

// The precision of matrix products: execution().compute and execution().math.
struct Precision {
  DType compute = DType::kF32;
  MathMode math = MathMode::kExact;
};
Precision precision_of(const Config& config);
// Replaces `auto` by bf16 if the device gains by it, else by f32, or by the precision of a run that
// continues; `run` is its folder, or empty. Returns a message about it; empty if the configuration names a
// precision.
std::string resolve_precision(Config& config, Device device, const std::string& run = "");
// Returns a line about what exact f32 costs if the device is a GPU, else "".
std::string note_on_exact_precision(const Config& config, Device device);
// Sets the precision until the end of the thread's ExecutionScope.
void set_precision(const Precision& precision);

}  // namespace saccade
