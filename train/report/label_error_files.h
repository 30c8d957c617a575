// Writes label errors to files: a list for people and programs, and labels to inspect in a labelling tool.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/files/temporary.h"
#include "data/evaluation/label_errors.h"
#include "data/formats/dataset.h"
#include "train/inference/arguments.h"

namespace saccade {

// What a label says, or what the model says instead.
struct ToldLabel {
  std::string category;
  std::optional<std::array<double, 4>> bbox = {};  // COCO's; unset for the whole image
};

struct LabelErrorEntry {
  LabelErrorKind kind{};
  double suspicion = 0;
  const ImageInfo* image = nullptr;
  std::string place =
      {};  // of the label in its file: "labels/a.txt: line 3", "annotation 7"; empty for a missing label
  std::optional<int64_t> annotation_id = {};
  std::optional<ToldLabel> label = {}, suggestion = {};
  std::optional<double> score = {}, iou = {};  // of the suggestion, and its overlap with the label
};

// Creates the folder before the evaluation, if one is wanted; it is removed again if nothing is written to
// it. Throws InputError if it exists and is not empty, names something else, or cannot be written.
std::unique_ptr<MadeFolder> make_label_error_folder(const LabelErrorOptions& options);

// Writes label_errors.json and label_errors.csv to the folder and, if `labels` is not null, the images that
// it names as labels of the form, in a folder of that name. Prints what was written.
void write_label_errors(const LabelErrorOptions& options, std::span<const LabelErrorEntry> entries,
                        const GroundTruth* labels, const std::string& images);

// Returns "12 labels look wrong: 3 missing, ...", by kind.
std::string summary_of(std::span<const LabelErrorEntry> entries);

}  // namespace saccade
