// Measures the time and the memory to read every tensor of a weights file.
// Usage: weights_bench FILE...   (scripts/bench/load_weights.sh makes files and runs this)
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>

#include "core/formats/weights_file.h"

namespace {

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    double before = peak_mib();
    auto start = std::chrono::steady_clock::now();
    auto file = saccade::open_weights(argv[i]);
    std::vector<saccade::Tensor> tensors;
    for (const saccade::WeightEntry& e : file->entries()) tensors.push_back(file->read(e.name));
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fmt::print("{}: {:.1f} MiB, {} tensors, {:.3f} s, peak memory {:.1f} MiB (before: {:.1f})\n", argv[i],
               static_cast<double>(std::filesystem::file_size(argv[i])) / (1 << 20), tensors.size(),
               seconds.count(), peak_mib(), before);
  }
  return 0;
}
