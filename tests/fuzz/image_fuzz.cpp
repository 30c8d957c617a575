// Fuzzing: any bytes as an image (scripts/fuzz.sh).
#include "data/images/image.h"
#include "tests/fuzz/target.h"

SACCADE_FUZZ(image) {
  saccade::fuzz::attempt([&] { saccade::decode_image({data, size}, "fuzz"); });
}
