// Objects that a detector has found, as commands and services write them.
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

// Which labels are shown: those that are named, by name or category id; all where none is. Throws InputError
// for one that the model lacks; `what` ("--classes: best.safetensors") begins its message.
std::vector<bool> shown_labels(const std::vector<std::string>& wanted, const LoadedModel& model,
                               const std::string& what);
// The score up to which a model leaves out what it finds, and the field that says so; nothing of others.
struct OwnThreshold {
  std::string field;
  double score = 0;
};
std::optional<OwnThreshold> own_threshold(const Config& config);
// Why a model finds nothing in any image; "" where it has no such score, or it is 0.
std::string note_on_nothing_found(const Config& config);
// Members of a JSON object in COCO's form, with names for people: category_id, bbox, score, category.
std::string object_json(const Instance& found, const LoadedModel& model);
// Its mask as a further member, with a comma before it; "" where it has none.
std::string segmentation_json(const Instance& found);

// Adds the points at which the last decoder layer sampled for one query of image n, in pixels of its
// original, as opaque as their weights. `record`: DetectorOutput::sampling.back().
void add_sampling_points(const SamplingRecord& record, const Batch& batch, int64_t n, int64_t query,
                         int64_t label, std::vector<DrawnPoint>& points);

}  // namespace saccade
