// Measures how many images per second one thread turns from JPEG files into augmented, normalised batches, as
// in training.
// Usage: loader_bench CONFIG ANNOTATIONS IMAGES BATCH [EPOCHS]   (scripts/bench/loader.py runs it against
// torchvision)
#include <fmt/format.h>

#include <chrono>
#include <string>

#include "core/runtime/cpu/thread_team.h"
#include "data/formats/data_format.h"
#include "train/config/options.h"
#include "train/inference/model_input.h"

namespace saccade {
namespace {

int run(const std::string& config_file, const std::string& annotations, const std::string& images,
        int batch_size, int epochs) {
  set_thread_count(1);
  const Config config = resolve_config(load_config(config_file));
  LoaderOptions options = train_loader(config);
  options.threads = 0;
  options.cache_mb = 0;
  options.batch_size = batch_size;
  options.multi_scale = {};
  const auto data = open_dataset({.annotations = annotations, .images = images});
  DataLoader loader(data, options);
  const kernels::ImageNormalization norm = image_normalization(config);
  double best = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    int64_t count = 0;
    for (int64_t i = 0; i < loader.batches_per_epoch(); ++i) {
      const Batch batch = *loader.next();
      count += normalized_images(batch, norm).value().dim(0);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(count) / seconds.count());
  }
  fmt::print("{:.2f}\n", best);
  return 0;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "Usage: loader_bench CONFIG ANNOTATIONS IMAGES BATCH [EPOCHS]\n");
    return 2;
  }
  return saccade::run(argv[1], argv[2], argv[3], std::stoi(argv[4]), argc > 5 ? std::stoi(argv[5]) : 2);
}
