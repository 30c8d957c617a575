// Sorts tables and lists by what they count.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace saccade {

// Returns the indices 0 to count - 1, the largest key(index) first; ties keep their order.
template <class Key>
std::vector<size_t> falling_order(size_t count, Key key) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return key(b) < key(a); });
  return order;
}

}  // namespace saccade
