// Published weights, from their address into the cache: resumed after a cut, compared with their sum, and
// under their name only when they are whole. Every fault is one line that names the address and what to do.
#pragma once

#include <string>

#include "train/weights/cache.h"
#include "train/weights/catalogue.h"

namespace saccade {

struct FetchSettings {
  double timeout_seconds = 30;  // to connect, and without bytes
  double pause_seconds = 1;     // before the second try; it doubles with each
  int tries = 5;                // in a row that bring nothing
};
// With $SACCADE_WEIGHTS_TIMEOUT instead of the 30 seconds. Throws InputError where it is no number.
FetchSettings fetch_settings();

// The path of the weights in the cache. Where they are not there, or damaged, they are fetched, with lines
// that say what, from where, how large and under which licence. Of several processes one fetches and the
// others wait for it. Throws InputError where the folder cannot be written, Error where the weights cannot be
// had, Interrupted after a signal; what has come so far stays in NAME.part.
std::string fetch_weights(const PublishedWeights& weights, const FetchSettings& settings, bool quiet);

// The file that an argument names, as of --init-from: the weights in the folder of a run or of Hugging Face,
// which is said, a file of this name, else published weights of this name or, with the name of a recipe in
// `model`, the recipe's own on the data set of this name, which are fetched. What has a dot or a slash is
// meant for a file and comes back as it is.
std::string weights_file(const std::string& flag, const std::string& text, const std::string& model,
                         bool quiet);

// One file from its address, over redirections, cuts and busy servers.
// Into the cache, whose lock is held. Throws Error, in one line; what has come so far stays,
// unless it is not what was wanted.
void download(const PublishedWeights& weights, const CachedWeights& cached, const FetchSettings& settings,
              bool quiet);

}  // namespace saccade
