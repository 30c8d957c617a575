// Fuzzing: any bytes as weights, in safetensors or one of PyTorch's containers; reads all tensors
// (scripts/fuzz.sh).
#include "core/formats/weights_file.h"
#include "tests/fuzz/target.h"

SACCADE_FUZZ(weights) {
  const std::string path = saccade::fuzz::write("weights", {reinterpret_cast<const char*>(data), size});
  saccade::fuzz::attempt([&] {
    const auto file = saccade::open_weights(path);
    for (const saccade::WeightEntry& entry : file->entries())
      saccade::fuzz::attempt([&] { file->read(entry.name); });
    file->verify();
  });
}
