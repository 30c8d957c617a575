// How much of objects detections cover, by their boxes or by their masks.
// The numbers are those of maskApi.c, to the bit.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/evaluation/metric_options.h"
#include "data/formats/ground_truth.h"

namespace saccade::coco {

// Used by any number of threads.
class Overlap {
 public:
  virtual ~Overlap() = default;
  // Fills `out` [found, objects] with the intersection over union of things in one image; of a crowd, with
  // the fraction of the detection that it covers.
  virtual void compare(std::span<const Detection* const> found, std::span<const Annotation* const> objects,
                       std::vector<double>& out) const = 0;
  // Fills `out` with the areas by which detections belong to area ranges.
  virtual void areas(std::span<const Detection* const> found, std::vector<double>& out) const = 0;
};
// Throws InputError for the first of the objects in known images, and of the detections, whose mask cannot be
// compared: there is none, or it has another size than its image. `source`: where the detections come from,
// for messages. The truth lives longer.
std::unique_ptr<Overlap> make_overlap(IouType type, const GroundTruth& truth,
                                      std::span<const Detection> detections, const std::string& source);

// The same for the objects alone, whose file is named, and for detections that may have none at all.
// A crowd may lack one: its box is taken. How many do, "3 crowds without a mask", or empty.
std::string need_masks(const GroundTruth& truth, const std::string& name);
// For training, where objects may lack one, which then teach their boxes and classes alone: says how many do,
// a line each for these and for crowds. Throws InputError where no object has one.
std::vector<std::string> notes_on_masks_to_learn(const GroundTruth& truth, const std::string& name);
void need_masks(std::span<const Detection> detections, const std::string& source);

}  // namespace saccade::coco
