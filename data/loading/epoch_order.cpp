#include "data/loading/epoch_order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "core/tensor/error.h"
#include "core/tensor/philox.h"

namespace saccade {
namespace {

void shuffle_order(std::vector<int64_t>& order, uint64_t seed, int64_t epoch) {
  Rng rng(mix_key(mix_key(seed, hash_name("epoch order")), static_cast<uint64_t>(epoch)));
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(rng.below(static_cast<int64_t>(i)))]);
}

}  // namespace

std::vector<int64_t> epoch_order(int64_t count, bool shuffle, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (shuffle) shuffle_order(order, seed, epoch);
  return order;
}

std::vector<int64_t> weighted_order(const std::vector<double>& weights, uint64_t seed, int64_t epoch) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  SACCADE_CHECK(sum > 0 && std::isfinite(sum), "[loader] the weights of the images sum to {}", sum);
  // Takes equal steps through the weights laid end to end, from a random start; the images are reordered each
  // epoch, so that neighbours are not always drawn together.
  std::vector<int64_t> images = epoch_order(std::ssize(weights), true, seed ^ hash_name("weighted"), epoch);
  Rng rng(mix_key(mix_key(seed, hash_name("weighted order")), static_cast<uint64_t>(epoch)));
  const double step = sum / static_cast<double>(weights.size());
  double next = rng.uniform() * step, end = 0;
  std::vector<int64_t> order;
  for (const int64_t image : images) {
    end += weights[static_cast<size_t>(image)];
    for (; next < end && order.size() < weights.size(); next += step) order.push_back(image);
  }
  while (order.size() < weights.size()) order.push_back(images.back());  // rounding may leave some out
  shuffle_order(order, seed, epoch);
  return order;
}

std::vector<int64_t> grouped_order(const std::vector<int64_t>& order, const std::vector<uint8_t>& groups,
                                   int64_t batch_size) {
  std::map<uint8_t, std::vector<int64_t>> waiting;
  std::vector<int64_t> out;
  for (const int64_t image : order) {
    std::vector<int64_t>& group = waiting[groups.at(static_cast<size_t>(image))];
    group.push_back(image);
    if (std::ssize(group) < batch_size) continue;
    out.insert(out.end(), group.begin(), group.end());
    group.clear();
  }
  for (const auto& [group, rest] : waiting) out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

std::vector<double> sampling_weights(const std::vector<std::vector<int64_t>>& images, Sampling sampling,
                                     double threshold) {
  if (sampling == Sampling::kUniform) return {};
  std::vector<std::set<int64_t>> sets;
  std::map<int64_t, double> frequency;
  for (const std::vector<int64_t>& classes : images)
    for (const int64_t k : sets.emplace_back(classes.begin(), classes.end()))
      frequency[k] += 1 / static_cast<double>(images.size());
  std::vector<double> weights;
  for (const std::set<int64_t>& classes : sets) {
    double largest = 1, sum = 0;
    for (const int64_t k : classes) {
      largest = std::max(largest, std::sqrt(threshold / frequency[k]));
      sum += 1 / frequency[k];
    }
    weights.push_back(sampling == Sampling::kRepeatFactor ? largest
                      : classes.empty()                   ? 1
                                                          : sum / static_cast<double>(classes.size()));
  }
  return weights;
}

}  // namespace saccade
