// saccade bench: measures how fast a checkpoint infers, from the bytes of images of the model's size to
// results on the host. Reading and resizing files is not counted.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/runtime/cpu/thread_team.h"
#include "core/runtime/gpu.h"
#include "core/tensor/allocator.h"
#include "core/tensor/philox.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"
#include "train/config/options.h"
#include "train/config/task.h"
#include "train/inference/answerer.h"
#include "train/inference/device_choice.h"
#include "train/inference/evaluation.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"

namespace saccade {
namespace {

Batch noise_batch(int64_t N, ImageSize size) {
  Batch batch;
  batch.images = Tensor::empty({N, size.height, size.width, 3}, DType::kU8);
  Rng rng(1);
  for (int64_t i = 0; i < batch.images.numel(); ++i)
    batch.images.data<uint8_t>()[i] = static_cast<uint8_t>(rng.next());
  for (int64_t n = 0; n < N; ++n) {
    Target target;
    target.image_id = n;
    target.height = target.original_height = size.height;
    target.width = target.original_width = size.width;
    batch.targets.push_back(std::move(target));
  }
  return batch;
}

// Returns the smallest of the sorted times that at least this fraction of them does not exceed.
double percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

}  // namespace

int run_bench(const BenchArguments& arguments) {
  check_outputs({{"--json", arguments.json}}, {{"CKPT", arguments.checkpoint}});
  const NamedFile json(arguments.json);
  const DeviceChoice choice = choose_device(arguments.device);
  LoadedModel model = load_trained_model(arguments.checkpoint, choice.device, arguments.precision);
  if (!choice.notice.empty()) print_line(choice.notice);
  const ImageSize size = eval_size(model.config, arguments.height, arguments.width);
  const Batch batch = noise_batch(arguments.batch_size, size);
  EvaluationMode mode(*model.module, precision_of(model.config));
  const auto inference = task_of(model.config).inferencer(model);

  using Clock = std::chrono::steady_clock;
  auto milliseconds_of = [&] {
    const Clock::time_point start = Clock::now();
    with_model_of(arguments.checkpoint, size, "--height, --width, --batch-size",
                  [&] { inference->run(batch); });
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  constexpr int kWarmRuns = 3, kFewestRuns = 10;  // the first runs allocate memory and make plans
  for (int i = 0; i < kWarmRuns; ++i) milliseconds_of();
  const int64_t launches_before = cuda_statistics().launches;
  std::vector<double> times;
  double sum = 0;
  while (std::ssize(times) < kFewestRuns || sum < arguments.seconds * 1e3) {
    times.push_back(milliseconds_of());
    sum += times.back();
  }
  const int64_t launches = (cuda_statistics().launches - launches_before) / std::ssize(times);
  std::sort(times.begin(), times.end());
  const double images_per_second =
      static_cast<double>(arguments.batch_size) * 1e3 * static_cast<double>(times.size()) / sum;
  const double p50 = percentile(times, 0.5), p90 = percentile(times, 0.9), p99 = percentile(times, 0.99);
  const int64_t peak = allocator(choice.device).stats().peak_bytes;
  const std::string precision = config::Precision_Name(model.config.precision());
  print_line(
      "{} x {} pixels, batches of {}, {} on {}, {} runs: {:.2f} images/s; latency {:.2f} ms (90 %: {:.2f}, 99 %: {:.2f}); "
      "tensors take {:.1f} MiB at most",
      size.height, size.width, arguments.batch_size, precision,
      choice.device == Device::kCpu ? count_of(thread_count(), "CPU thread", "CPU threads")
                                    : fmt::format("the GPU ({} launches each)", launches),
      times.size(), images_per_second, p50, p90, p99, static_cast<double>(peak) / (1 << 20));
  json.write(fmt::format(
      "{{\"images_per_second\": {}, \"latency_ms\": {{\"p50\": {}, \"p90\": {}, \"p99\": {}}}, \"runs\": {}, "
      "\"batch_size\": {}, \"height\": {}, \"width\": {}, \"precision\": \"{}\", \"peak_bytes\": {}}}\n",
      images_per_second, p50, p90, p99, times.size(), arguments.batch_size, size.height, size.width,
      precision, peak));
  return 0;
}

}  // namespace saccade
