// One file from its address, over redirections, cuts and busy servers.
#pragma once

#include <string>

#include "train/weights/cache.h"
#include "train/weights/fetch.h"

namespace saccade {

// Into the cache, whose lock is held. Throws Error, in one line; what has come so far stays,
// unless it is not what was wanted.
void download(const PublishedWeights& weights, const CachedWeights& cached, const FetchSettings& settings,
              bool quiet);

}  // namespace saccade
