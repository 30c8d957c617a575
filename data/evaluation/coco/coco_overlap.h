// The overlap of detections with objects, by their boxes or by their masks.
// The numbers equal those of maskApi.c to the bit.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/evaluation/metric_options.h"
#include "data/formats/ground_truth.h"

namespace saccade::coco {

// May be used by any number of threads.
class Overlap {
 public:
  virtual ~Overlap() = default;
  // Fills `out` [found, objects] with the intersection over union of detections and objects in one image; for
  // a crowd, with the fraction of the detection that it covers.
  virtual void compare(std::span<const Detection* const> found, std::span<const Annotation* const> objects,
                       std::vector<double>& out) const = 0;
  // Fills `out` with the areas that assign detections to area ranges.
  virtual void areas(std::span<const Detection* const> found, std::vector<double>& out) const = 0;
};
// Throws InputError for the first of the objects in known images, and of the detections, whose mask cannot be
// compared because it is missing or has another size than its image. `source`: where the detections come
// from, for messages. The truth must outlive the result.
std::unique_ptr<Overlap> make_overlap(IouType type, const GroundTruth& truth,
                                      std::span<const Detection> detections, const std::string& source);

// Throws likewise, only for the objects, of the file `name`. A crowd may lack a mask: its box is used.
// Returns the number of such crowds, "3 crowds without a mask", or "".
std::string need_masks(const GroundTruth& truth, const std::string& name);
// For training, where an object without a mask only teaches its box and class: reports how many there are,
// one line each for objects and for crowds. Throws InputError if no object has a mask.
std::vector<std::string> notes_on_masks_to_learn(const GroundTruth& truth, const std::string& name);
// Throws InputError for the first detection without a mask; there may be no detections.
void need_masks(std::span<const Detection> detections, const std::string& source);

}  // namespace saccade::coco
