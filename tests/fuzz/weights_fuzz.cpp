// libFuzzer: any bytes as weights, safetensors or one of PyTorch's containers, with all of their tensors (scripts/fuzz.sh).
#include "core/formats/weights_file.h"
#include "tests/fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = saccade::fuzz::write("weights", {reinterpret_cast<const char*>(data), size});
  saccade::fuzz::attempt([&] {
    const auto file = saccade::open_weights(path);
    for (const saccade::WeightEntry& entry : file->entries())
      saccade::fuzz::attempt([&] { file->read(entry.name); });
    file->verify();
  });
  return 0;
}
