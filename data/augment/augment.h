// Augmentation: a list of steps, each applied to an image and its objects, which follow the pixels exactly.
// Training and evaluation each have a list. All random numbers come from one Rng, drawn in the order of the
// steps, so an image's augmentation depends only on its key. A step is one file that registers itself; its
// fields are in the message Augment of the schema.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/registry.h"
#include "core/tensor/philox.h"
#include "data/images/resize.h"
#include "data/images/sample.h"

namespace saccade {

// The inputs that steps are made from: the fields of `data.augment` by name, and other relevant parts of the
// configuration.
struct AugmentFields {
  std::map<std::string, std::vector<double>> values;  // one value, or those of a list; a bool is 0 or 1
  bool complete = false;                              // a missing name is an Error; otherwise it reads as 0
  Filter filter = Filter::kBilinear;
  // The mean and deviation that images are normalised with, for red, green and blue in [0, 1].
  std::array<double, 3> mean{0.485, 0.456, 0.406}, std{0.229, 0.224, 0.225};

  double number(const std::string& name) const;
  int64_t integer(const std::string& name) const { return static_cast<int64_t>(number(name)); }
  std::vector<int64_t> integers(const std::string& name) const;

 private:
  const std::vector<double>& list(const std::string& name) const;
};

using AugmentFunction = std::function<void(Sample& sample, Rng& rng)>;
// A step that only changes colours and moves nothing.
using PixelFunction = std::function<void(Image& image, Rng& rng)>;
// Returns another image of the data set, before any augmentation.
using AnotherSample = std::function<Sample(Rng& rng)>;
using CombineFunction = std::function<void(Sample& sample, Rng& rng, const AnotherSample& another)>;

// The epochs from `begin` to `end`, without `end`.
struct EpochRange {
  int64_t begin = 0, end = INT64_MAX;
  bool contains(int64_t epoch) const { return epoch >= begin && epoch < end; }
};

// When a step that its own fields switch on is active: always; in the epochs of the strong augmentations
// (strong_start_epoch to strong_stop_epoch); or in those of them in which images are combined (up to
// mosaic_stop_epoch).
enum class AugmentPhase { kAlways, kStrong, kCombining };
EpochRange epochs_of(AugmentPhase phase, const AugmentFields& fields);

struct AugmentSpec {
  std::string name;
  // Steps run in ascending order, those of equal order by name: below 0 the strong ones on the original
  // image, below 20 turns and flips, below 40 the size, below 60 the colours, then those that hide parts of
  // the image. Adding a step between others leaves their random numbers unchanged while it is off.
  int order = 0;
  AugmentPhase phase = AugmentPhase::kAlways;
  // The field with the probability of the step, which draws a number for each image and is off if the field
  // is 0; empty if the step always happens.
  std::string probability = {};
  std::string file = {};
  // These return nothing if the fields leave the step out, and throw Error for a field that is out of range.
  // Exactly one of the three is set.
  AugmentFunction (*make)(const AugmentFields& fields) = nullptr;
  PixelFunction (*make_of_pixels)(const AugmentFields& fields) = nullptr;
  CombineFunction (*make_of_several)(const AugmentFields& fields) = nullptr;
};
inline Registry<AugmentSpec>& augmentations() { return registry_of<AugmentSpec>("augmentation"); }

struct AugmentStep {
  std::string name;
  std::optional<double> probability;
  EpochRange epochs;
  CombineFunction apply;
};
using Augmentation = std::vector<AugmentStep>;

// Returns the registered steps that the fields switch on. Throws Error for a field that is out of range.
Augmentation make_augmentation(const AugmentFields& fields);
// Steps that combine images need `another`. A step that is not active in this epoch draws no random numbers.
Sample augment(Sample sample, const Augmentation& steps, Rng& rng, int64_t epoch = 0,
               const AnotherSample& another = {});

// Draws from the closed range [low, high].
inline int64_t pick_between(Rng& rng, int64_t low, int64_t high) { return low + rng.below(high - low + 1); }

}  // namespace saccade
