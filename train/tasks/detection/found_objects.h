// Writes the objects that a detector has found, for commands and services.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/types/instance.h"
#include "data/images/draw.h"
#include "data/loading/batch.h"
#include "layers/attention.h"
#include "train/checkpoints/load_model.h"

namespace saccade {

// Which labels are shown: those named, by name or category id, or all if none is named. Throws InputError for
// one that the model lacks, with a message that begins with `what` ("--classes: best.safetensors").
std::vector<bool> shown_labels(const std::vector<std::string>& wanted, const LoadedModel& model,
                               const std::string& what);
// The score that a model's detections must exceed, and the field that sets it; nothing for other models.
struct OwnThreshold {
  std::string field;
  double score = 0;
};
std::optional<OwnThreshold> own_threshold(const Config& config);
// Explains why a model finds nothing in any image; empty if it has no such score, or the score is 0.
std::string note_on_nothing_found(const Config& config);
// Returns members of a JSON object in COCO's form, plus the class name: category_id, bbox, score, category.
std::string object_json(const Instance& found, const LoadedModel& model);
// Returns its mask as a further member, with a comma before it; empty if it has none.
std::string segmentation_json(const Instance& found);

// Adds the points at which the last decoder layer sampled for one query of image n, in pixels of the original
// image and with their weights as opacity. `record`: DetectorOutput::sampling.back().
void add_sampling_points(const SamplingRecord& record, const Batch& batch, int64_t n, int64_t query,
                         int64_t label, std::vector<DrawnPoint>& points);

}  // namespace saccade
