// What the anchors of an image stand for.
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

// What was made of a target before its step, by a thread of the loader, until the step asks for it.
template <class T>
class KeptTargets {
 public:
  using Pointer = std::shared_ptr<const T>;
  // Of too many the oldest go.
  void keep(Pointer made) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(made));
    if (kept_.size() > kMax) kept_.pop_front();
  }
  // The oldest for which is(T), or null; it goes if it is taken.
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

// Keeps what one asks for repeatedly: a thread of the loader makes them, a step first counts the anchors of
// all its images, then learns from them.
class KeptAnchorTargets {
 public:
  using Pointer = KeptTargets<AnchorTargets>::Pointer;
  // Those of a target of this size and with these objects, made where none are kept; take() keeps them no
  // longer.
  Pointer keep(const Anchors& anchors, const Target& target, const MaxIouOptions& options);
  Pointer take(const Anchors& anchors, const Target& target, const MaxIouOptions& options);

 private:
  Pointer find(const Target& target, bool is_taken);

  KeptTargets<AnchorTargets> kept_;
};

}  // namespace saccade
