// The images of a whole training step, of all its batches and all its processes. What the losses of a step are divided by follows from
// them, so a loss knows it without asking other processes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/types/target.h"

namespace saccade {

// A loss of one batch is a sum over its own images, divided by a number of this class. So the losses and gradients of a step's batches,
// and of the ranks of a group, add up to those of one large batch.
class StepImages {
 public:
  StepImages() = default;
  explicit StepImages(const std::vector<Target>& targets) { add(targets); }

  void add(const std::vector<Target>& targets) {
    for (const Target& t : targets) add(static_cast<int64_t>(t.instances.size()));
  }
  void add(int64_t objects_of_image) { objects_.push_back(objects_of_image); }

  // How many objects each image has, in no order that means anything.
  const std::vector<int64_t>& each() const { return objects_; }
  bool empty() const { return objects_.empty(); }
  int64_t images() const { return static_cast<int64_t>(objects_.size()); }
  int64_t objects() const { return matched(INT64_MAX); }
  int64_t most_objects() const {
    return objects_.empty() ? 0 : *std::max_element(objects_.begin(), objects_.end());
  }
  // The objects that find a query of their own, where each image has so many queries and every object asks for `repeat` of them.
  int64_t matched(int64_t queries, int64_t repeat = 1) const {
    int64_t sum = 0;
    for (int64_t count : objects_) sum += std::min(count * repeat, queries);
    return sum;
  }

 private:
  std::vector<int64_t> objects_;
};

}  // namespace saccade
