// What the anchors of an image stand for.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "core/types/target.h"
#include "models/pyramid/anchors.h"
#include "models/pyramid/max_iou_assigner.h"

namespace saccade {

// The objects' boxes, four corners each, in pixels of the image as the model gets it.
std::vector<float> corners_of_objects(const Target& target);

// All of it follows from the image alone: neither the others of its batch nor what pads it change anything.
struct AnchorTargets {
  ImageSize size;
  FeatureLevels maps;           // of the image's reach
  std::vector<int32_t> stands;  // for each of Anchors::boxes an object, kBackground or kIgnored
  std::vector<float> objects;   // corners_of_objects

  AnchorTargets() = default;
  // inside: anchors that reach over the edge of the image are ignored, and no object's best.
  AnchorTargets(const Anchors& anchors, const Target& target, const MaxIouOptions& options,
                bool inside = false);
  int64_t positives() const;
};

// Of every image of a batch, by several threads.
std::vector<AnchorTargets> anchor_targets(const Anchors& anchors, const std::vector<Target>& targets,
                                          const MaxIouOptions& options, bool inside = false);

// Keeps what one asks for twice: a step first counts the anchors of all its images, then learns from them.
class KeptAnchorTargets {
 public:
  using Pointer = std::shared_ptr<const AnchorTargets>;
  // Makes those of a target, which take() gives back to a target of this size and with these objects.
  // Of too many the oldest go.
  Pointer keep(const Anchors& anchors, const Target& target, const MaxIouOptions& options);
  Pointer take(const Anchors& anchors, const Target& target, const MaxIouOptions& options);

 private:
  static constexpr size_t kMax = 256;
  std::mutex mutex_;
  std::deque<Pointer> kept_;
};

}  // namespace saccade
