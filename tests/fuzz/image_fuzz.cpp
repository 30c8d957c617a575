// Fuzzing: any bytes as an image (scripts/fuzz.sh).
#include "data/images/image.h"
#include "tests/fuzz/target.h"

// A few hundred bytes may hold an image of 10^8 pixels, for which the instrumented decoders take longer than
// the fuzzer waits.
static constexpr int64_t kMaxPixels = int64_t{1} << 24;

SACCADE_FUZZ(image) {
  saccade::fuzz::attempt([&] {
    const saccade::ImageSize shown = saccade::inspect_image({data, size}, "fuzz").size;
    if (shown.height * shown.width <= kMaxPixels) saccade::decode_image({data, size}, "fuzz");
  });
}
