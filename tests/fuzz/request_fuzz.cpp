// Fuzzing: any bytes as a request to `saccade serve`: a line for the address, one for the content type, and
// the body (scripts/fuzz.sh).
#include <algorithm>
#include <utility>

#include "tests/fuzz/target.h"
#include "train/serve/image_request.h"

SACCADE_FUZZ(request) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t first = std::min(text.find('\n'), size), second = std::min(text.find('\n', first + 1), size);
  saccade::ServiceRequest request{.method = "POST", .target = text.substr(0, first)};
  if (first < size) request.content_type = text.substr(first + 1, second - first - 1);
  if (second < size) request.body = text.substr(second + 1);
  try {
    saccade::check_content(request);
    saccade::image_request(std::move(request), {"png", "jpg"});
  } catch (const saccade::HttpError&) {  // a line about the request
  }
}
