// The flags for the settings that most trainings change: --epochs, --batch, --image-size and --lr. Each
// stands for edits of the configuration, like those of --set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace saccade {

struct QuickFlags {
  int64_t epochs = 0, batch = 0, image_size = 0;  // 0: the configuration's
  std::optional<double> learning_rate = {};
};

struct FlagEdit {
  const char* flag;  // "--epochs"
  std::string assignment;
};
// Returns the edits of the configuration, which --set may edit further. An image size sets those of training
// and evaluation, and scales all lengths in such images in proportion. A number of epochs clears
// train.max_steps and moves what begins or ends at an epoch, except in a run that continues. With another
// batch size, batches are accumulated so that a step keeps its number of images. Throws InputError for what a
// flag cannot change.
std::vector<FlagEdit> flag_edits(const Config& config, const QuickFlags& flags, bool resumes = false);

// A flag as the user gave it ("--epochs 4") and the field that it names ("train.epochs=4").
struct NamedField {
  std::string flag, assignment;
};
// Returns the fields that these flags name, without what follows from them. --image-size names none: it is
// the size of several fields, each of which --set may change.
std::vector<NamedField> named_fields(const QuickFlags& flags, const DataFlags& data = {});
// Throws InputError if a flag and --set give the same field different values.
void refuse_conflicts(const std::vector<NamedField>& flags, const std::vector<std::string>& sets);

// How many batches of this size are accumulated for a step of about this many images, at least one.
int64_t batches_of_step(int64_t images, int64_t batch);

// The edits of a checkpoint's evaluation size; none if `image_size` is 0.
std::vector<std::string> size_edits(const Config& config, int64_t image_size);

}  // namespace saccade
