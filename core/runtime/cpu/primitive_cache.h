// Statistics of the bounded cache of compiled oneDNN primitives (core/runtime/cpu/onednn.h), readable without
// oneDNN's headers.
#pragma once

#include "core/runtime/lru_cache.h"

namespace saccade::onednn {

CacheStats cache_stats();
// Throws Error if the capacity is 0.
void set_cache_capacity(size_t capacity);

}  // namespace saccade::onednn
