// The images of a whole training step, of all its batches and all its processes. The divisors of a step's
// losses follow from them, so a loss knows its divisor without asking other processes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/types/target.h"

namespace saccade {

// A loss of one batch is a sum over its own images, divided by a number from this class. So the losses and
// gradients of a step's batches, and of the ranks of a group, add up to those of one large batch.
class StepImages {
 public:
  // count: the image's part of the divisor, for models that do not divide by objects (Detector::count).
  struct Image {
    int64_t objects, count;
  };

  StepImages() = default;
  explicit StepImages(const std::vector<Target>& targets) {
    for (const Target& t : targets) {
      const auto objects = static_cast<int64_t>(t.instances.size());
      add({objects, objects});
    }
  }

  void add(const Image& image) { each_.push_back(image); }
  void add(const StepImages& more) { each_.insert(each_.end(), more.each_.begin(), more.each_.end()); }

  // The order has no meaning.
  const std::vector<Image>& each() const { return each_; }
  bool empty() const { return each_.empty(); }
  int64_t images() const { return static_cast<int64_t>(each_.size()); }
  int64_t objects() const { return matched(INT64_MAX); }
  int64_t counted() const {
    int64_t sum = 0;
    for (const Image& image : each_) sum += image.count;
    return sum;
  }
  int64_t most_objects() const {
    int64_t most = 0;
    for (const Image& image : each_) most = std::max(most, image.objects);
    return most;
  }
  // The number of objects that get a query of their own if each image has this many queries and every object
  // asks for `repeat` of them.
  int64_t matched(int64_t queries, int64_t repeat = 1) const {
    int64_t sum = 0;
    for (const Image& image : each_) sum += std::min(image.objects * repeat, queries);
    return sum;
  }

 private:
  std::vector<Image> each_;
};

}  // namespace saccade
