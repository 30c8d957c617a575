// The training targets of an image's anchors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "core/types/target.h"
#include "models/pyramid/anchors.h"
#include "models/pyramid/max_iou_assigner.h"

namespace saccade {

// Returns the objects' boxes, four corner coordinates each, in pixels of the image that the model gets.
std::vector<float> corners_of_objects(const Target& target);

// Depends only on the image itself: neither the other images of its batch nor padding affect it.
struct AnchorTargets {
  ImageSize size;
  FeatureLevels maps;           // of the image's extent (reach_of)
  std::vector<int32_t> stands;  // for each of Anchors::boxes an object index, kBackground or kIgnored
  std::vector<float> objects;   // corners_of_objects

  AnchorTargets() = default;
  // inside: anchors that cross the edge of the image are ignored and cannot be an object's best.
  AnchorTargets(const Anchors& anchors, const Target& target, const MaxIouOptions& options,
                bool inside = false);
  int64_t positives() const;
};

// Keeps what a thread of the loader computed from a target before its step until the step asks for it.
template <class T>
class KeptTargets {
 public:
  using Pointer = std::shared_ptr<const T>;
  // Discards the oldest if there are too many.
  void keep(Pointer made) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(made));
    if (kept_.size() > kMax) kept_.pop_front();
  }
  // Returns the oldest for which is(T), or null; is_taken: removes it.
  template <class Is>
  Pointer find(const Is& is, bool is_taken) {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find_if(kept_, [&](const Pointer& p) { return is(*p); });
    if (known == kept_.end()) return nullptr;
    Pointer found = *known;
    if (is_taken) kept_.erase(known);
    return found;
  }

 private:
  static constexpr size_t kMax = 256;
  std::mutex mutex_;
  std::deque<Pointer> kept_;
};

// Keeps targets that are needed repeatedly: a thread of the loader computes them, a step first counts the
// anchors of all its images, then learns from them.
class KeptAnchorTargets {
 public:
  using Pointer = KeptTargets<AnchorTargets>::Pointer;
  // Return the anchor targets for a target of this size and with these objects, computing them if none are
  // kept; take() also removes them.
  Pointer keep(const Anchors& anchors, const Target& target, const MaxIouOptions& options);
  Pointer take(const Anchors& anchors, const Target& target, const MaxIouOptions& options);

 private:
  Pointer find(const Target& target, bool is_taken);

  KeptTargets<AnchorTargets> kept_;
};

}  // namespace saccade
