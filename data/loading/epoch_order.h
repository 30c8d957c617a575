// The images of an epoch and their order: functions only of (seed, epoch) and the data set.
#pragma once

#include <cstdint>
#include <vector>

namespace saccade {

// Returns the image indices of an epoch, a permutation of [0, count).
std::vector<int64_t> epoch_order(int64_t count, bool shuffle, uint64_t seed, int64_t epoch);

// The same with images drawn by their weights (above 0): as many as there are images. Each occurs count *
// weight / sum of weights times, rounded down or up, in a new order.
std::vector<int64_t> weighted_order(const std::vector<double>& weights, uint64_t seed, int64_t epoch);

// Reorders the images so that each batch of this size has images of one group, as long as a group has enough
// of them; the rest comes last.
std::vector<int64_t> grouped_order(const std::vector<int64_t>& order, const std::vector<uint8_t>& groups,
                                   int64_t batch_size);

// How often images are drawn, depending on the classes [K] of each image.
enum class Sampling {
  kUniform,
  // Gupta et al. (2019, LVIS): max(1, sqrt(threshold / f)) for an image's rarest class, where f is the
  // fraction of the images that have it.
  kRepeatFactor,
  // The mean of 1 / f over an image's classes.
  kClassBalanced,
};
// [images.size()]; empty for kUniform.
std::vector<double> sampling_weights(const std::vector<std::vector<int64_t>>& images, Sampling sampling,
                                     double threshold);

}  // namespace saccade
