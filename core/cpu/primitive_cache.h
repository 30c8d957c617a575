// Statistics of the bounded cache of compiled oneDNN primitives (core/cpu/onednn.h), readable without
// oneDNN's headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace saccade::onednn {

struct CacheStats {
  size_t size = 0, capacity = 0;
  uint64_t hits = 0, misses = 0;
};

CacheStats cache_stats();
// The least recently used entries leave first. Throws Error for 0.
void set_cache_capacity(size_t capacity);

}  // namespace saccade::onednn
