// libFuzzer: any bytes as an image (scripts/fuzz.sh).
#include "core/tensor/error.h"
#include "data/images/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    saccade::decode_image({data, size}, "fuzz");
  } catch (const saccade::InputError&) {
  }
  return 0;
}
