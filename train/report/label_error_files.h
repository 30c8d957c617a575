// Label errors as files: a list for people and programs, and labels to look at in a tool for labelling.
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

// What a label says, or what the model says in its place.
struct ToldLabel {
  std::string category;
  std::optional<std::array<double, 4>> bbox = {};  // COCO's; none: of the whole image
};

struct LabelErrorEntry {
  LabelErrorKind kind{};
  double suspicion = 0;
  const ImageInfo* image = nullptr;
  std::string place =
      {};  // of the label in its file: "labels/a.txt: line 3", "annotation 7"; "": it is missing
  std::optional<int64_t> annotation_id = {};
  std::optional<ToldLabel> label = {}, suggestion = {};
  std::optional<double> score = {}, iou = {};  // of the suggestion, and how much it overlaps the label
};

// Before the evaluation: the folder, if one is wanted, which goes again if nothing comes into it. Throws
// InputError where it is there already and not empty, is the name of something else, or cannot be written.
std::unique_ptr<MadeFolder> make_label_error_folder(const LabelErrorOptions& options);

// label_errors.json and label_errors.csv in the folder, and where `labels` is not null the images that it
// names as labels of the form, in a folder of its name. Prints what was written.
void write_label_errors(const LabelErrorOptions& options, std::span<const LabelErrorEntry> entries,
                        const GroundTruth* labels, const std::string& images);

// "12 labels look wrong: 3 missing, ...", by kind.
std::string summary_of(std::span<const LabelErrorEntry> entries);

}  // namespace saccade
