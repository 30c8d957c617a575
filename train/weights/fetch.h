// Fetches published weights from their address into the cache: resumed after an interruption, compared with
// their checksum, and given their name only when complete. Every fault is one line that names the address and
// what to do.
#pragma once

#include <string>

#include "train/weights/cache.h"
#include "train/weights/catalogue.h"

namespace saccade {

struct FetchSettings {
  double timeout_seconds = 30;  // to connect, and without any bytes
  double pause_seconds = 1;     // before the second try; doubles with each further one
  int tries = 5;                // fetching ends after so many tries in a row that bring less than 1 MiB
};
// With $SACCADE_WEIGHTS_TIMEOUT instead of the 30 seconds. Throws InputError if it is not a number.
FetchSettings fetch_settings();

// Returns the path of the weights in the cache. If they are missing or damaged, fetches them, with lines that
// say what, from where, how large and under which licence. Of several processes one fetches and the others
// wait for it. Throws InputError if the folder cannot be written, Error if the weights cannot be obtained,
// Interrupted after a signal; what was received so far stays in NAME.part.
std::string fetch_weights(const PublishedWeights& weights, const FetchSettings& settings, bool quiet);

// Returns the file that an argument such as that of --init-from names: the weights in the folder of a run or
// of Hugging Face (which it prints), a file of this name, else published weights of this name or, with the
// name of a recipe in `model`, the recipe's own weights for the data set of this name, which are fetched.
// Text with a dot or a slash is taken for a file and returned as it is.
std::string weights_file(const std::string& flag, const std::string& text, const std::string& model,
                         bool quiet);

// Downloads one file from its address, despite redirections, interruptions and busy servers, into the cache,
// whose lock is held. Throws Error, in one line; what was received so far stays, unless it is not what was
// wanted.
void download(const PublishedWeights& weights, const CachedWeights& cached, const FetchSettings& settings,
              bool quiet);

}  // namespace saccade
