// Times a detector's training step or inference on random images with ten objects each (boxes that are also
// their masks). All images have one size without padding, or the batches are padded with the sizes in a file:
//   detector_bench --config configs/deformable_detr_r50.textproto [--device cpu|cuda]
//                  [--precision f32|tf32|bf16] [--infer]
//                  [--batch 4] [--height 800] [--width 1066 | --sizes scripts/bench/coco_batches.txt]
//                  [--steps 20] [--set path=value]... [--rank 0 --ranks 2 --master 127.0.0.1:29500]
//                  [--ops FILE]
// prints {"ms": mean of the steps after the first fifth, "host_ms": the processor time of the thread that
// starts the work, "images_per_second": ..., "peak_bytes": ...} and on a GPU "launches", "host_syncs",
// "uploaded_bytes" and "allocations" of a step. The clock stops after the GPU has finished the last step.
// As in a loader, other threads prepare the images (Detector::prepare) one step ahead.
// scripts/bench/gpu.sh runs it against PyTorch. On the emulated GPU with SACCADE_EMULATOR_DRY=1 only the
// host's work of a step remains. With several ranks, each trains on a batch of its own. --ops writes a line
// for every op of a forward pass and the losses: its name, multiply-accumulates, and the bytes of its inputs
// and of its output (scripts/bench/predict_gpu.py).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/engine.h"
#include "autograd/scope.h"
#include "core/distributed/process_group.h"
#include "core/files/output_file.h"
#include "core/runtime/gpu.h"
#include "core/tensor/allocator.h"
#include "core/tensor/philox.h"
#include "models/build.h"
#include "train/config/options.h"
#include "train/inference/device_choice.h"
#include "train/inference/model_input.h"
#include "train/optimizers/gradient_sum.h"
#include "train/optimizers/optimizer.h"

namespace saccade {
namespace {

constexpr int64_t kClasses = 91;

struct Options {
  std::string config, device = "cpu", precision = "f32", sizes, ops;
  RankFlags ranks;
  std::vector<std::string> sets;
  bool infer = false;
  int64_t batch = 4, height = 800, width = 1066, steps = 20;
};

// The sizes of each step's images.
std::vector<std::vector<ImageSize>> read_sizes(const Options& o) {
  const auto batch = static_cast<size_t>(o.batch), steps = static_cast<size_t>(o.steps);
  if (o.sizes.empty()) return {std::vector<ImageSize>(batch, {o.height, o.width})};
  std::vector<std::vector<ImageSize>> out;
  std::ifstream file(o.sizes);
  int64_t height = 0, width = 0;
  while ((out.size() < steps || out.back().size() < batch) && file >> height >> width) {
    if (out.empty() || out.back().size() == batch) out.emplace_back();
    out.back().push_back({height, width});
  }
  if (!out.empty() && out.back().size() < batch) out.pop_back();
  if (out.empty())
    fail_input("{}: no batch of {} sizes, expected lines of heights and widths", o.sizes, o.batch);
  return out;
}

// Makes a batch of random images, padded to the largest height and width.
Batch random_batch(const std::vector<ImageSize>& sizes, Rng& rng) {
  const auto N = static_cast<int64_t>(sizes.size());
  int64_t H = 0, W = 0;
  for (const ImageSize& size : sizes) {
    H = std::max(H, size.height);
    W = std::max(W, size.width);
  }
  Batch batch;
  batch.images = Tensor::empty({N, H, W, 3}, DType::kU8);
  auto* image = batch.images.data<uint8_t>();
  for (int64_t n = 0; n < N; ++n) {
    const ImageSize size = sizes[static_cast<size_t>(n)];
    for (int64_t y = 0; y < H; ++y)
      for (int64_t x = 0; x < W; ++x) {
        const bool padding = y >= size.height || x >= size.width;
        const uint64_t bits = rng.next();
        for (int c = 0; c < 3; ++c) *image++ = padding ? 0 : static_cast<uint8_t>(bits >> (8 * c));
      }
    Target target;
    target.image_id = n;
    target.height = target.original_height = size.height;
    target.width = target.original_width = size.width;
    target.frame = {1, 1};
    for (int i = 0; i < 10; ++i) {
      const int64_t label = rng.below(kClasses);
      const double cx = rng.uniform(0.3, 0.7), cy = rng.uniform(0.3, 0.7), w = rng.uniform(0.05, 0.5),
                   h = rng.uniform(0.05, 0.5);
      const Box box = box_of_centre(cx, cy, w, h);
      const auto mask = Mask::from_box(
          size, scaled(box, static_cast<double>(size.width), static_cast<double>(size.height)));
      target.instances.push_back({.label = label, .box = box, .mask = std::make_shared<const Mask>(mask)});
    }
    batch.targets.push_back(target);
  }
  return batch;
}

// Lists the work of each op for a device; views have none.
class OpList final : public OpObserver {
 public:
  void observe(const Op& op) override {
    size_t bytes = 0;
    for (const Tensor& input : op.inputs) {
      if (!input.defined()) continue;
      if (input.storage() == op.output.storage()) return;
      bytes += input.bytes();
    }
    lines += fmt::format("{}\t{}\t{}\t{}\n", op.name, op.macs, bytes, op.output.bytes());
  }
  std::string lines;
};

int bench(const Options& o) {
  Config config = load_config(o.config);
  apply_set(config, "precision=" + o.precision);
  for (const std::string& set : o.sets) apply_set(config, set);
  config = resolve_config(config);
  const Ranks ranks = find_ranks(o.ranks, [](const char* name) -> const char* { return std::getenv(name); });
  Device device = choose_device(o.device, ranks).device;
  if (ranks.size > 1) join_processes(ranks, device);
  auto model = build_as<Detector>(model_args(config), kClasses, criterion_args(config));
  model->initialize(1);
  model->to(device);
  model->set_training(!o.infer);
  std::optional<Optimizer> optimizer;
  if (!o.infer) optimizer.emplace(model->parameters(), config.optimizer());
  std::optional<GradientSum> sum;
  if (optimizer && ranks.size > 1) sum.emplace(process_group(), optimizer->parameters());
  kernels::ImageNormalization norm = image_normalization(config);
  Rng rng(2);
  std::vector<Batch> batches;
  for (const std::vector<ImageSize>& sizes : read_sizes(o)) batches.push_back(random_batch(sizes, rng));
  size_t next = 0;
  std::vector<std::future<void>> prepared;  // of the next step's images, as the loader's threads do it
  auto prepare = [&](const Batch& batch) {
    for (const Target& target : batch.targets)
      prepared.push_back(
          std::async(std::launch::async, [&, key = execution().rng_key] { model->prepare(target, key); }));
  };

  ExecutionScope scope;
  set_precision(precision_of(config));
  execution().grad_enabled = !o.infer;
  auto finish = [&] { return model->parameters().front().var.value().reshape({-1}).slice(0, 0, 1).item(); };
  auto step = [&] {
    const Batch& batch = batches[next++ % batches.size()];
    for (const std::future<void>& image : prepared) image.wait();
    prepared.clear();
    if (!o.infer) prepare(batches[next % batches.size()]);
    DetectorInput input = detector_input(batch, norm, device);
    if (!o.infer) input.targets = &batch.targets;
    if (optimizer) optimizer->zero_grad();
    auto output = model->forward(input);
    if (o.infer) {  // the detections must arrive
      model->postprocess(*output, batch.targets, {.max_detections = 300, .nms = config.eval().nms()});
      return;
    }
    const Var loss = model->loss(*output, batch.targets).total;
    output.reset();
    if (sum) {
      sum->backward_and_start(loss);
      Tensor losses = loss.value().reshape({1}).clone();
      sum->finish(losses, "");
    } else {
      backward(loss);
    }
    optimizer->step(1);
  };
  int64_t warm = std::max<int64_t>(1, o.steps / 5), timed = std::max<int64_t>(1, o.steps - warm);
  for (int64_t i = 0; i < warm; ++i) step();
  finish();
  if (!o.ops.empty()) {
    OpList list;
    execution().observer = &list;
    step();
    execution().observer = nullptr;
    write_file(o.ops, std::string_view(list.lines));
  }
  auto thread_ms = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
  };
  const CudaStatistics before = cuda_statistics();
  const AllocatorStats memory_before = allocator(device).stats();
  const double host_before = thread_ms();
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < timed; ++i) step();
  const double host_ms = (thread_ms() - host_before) / static_cast<double>(timed);
  const CudaStatistics after = cuda_statistics();
  const AllocatorStats memory = allocator(device).stats();
  finish();
  double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() /
              static_cast<double>(timed);
  std::string counts;
  if (device == Device::kCuda)
    counts = fmt::format(
        ", \"launches\": {}, \"host_syncs\": {}, \"uploaded_bytes\": {}, \"allocations\": {}, \"of_the_driver\": {}",
        (after.launches - before.launches) / timed, (after.host_syncs - before.host_syncs) / timed,
        (after.uploaded_bytes - before.uploaded_bytes) / timed,
        (memory.requests - memory_before.requests) / timed,
        (memory.system_requests - memory_before.system_requests) / timed);
  fmt::print(
      "{{\"ms\": {:.3f}, \"host_ms\": {:.3f}, \"images_per_second\": {:.2f}, \"peak_bytes\": {}, \"parameters\": {}{}}}\n",
      ms, host_ms, static_cast<double>(o.batch) * 1e3 / ms, allocator(device).stats().peak_bytes,
      model->parameter_count(), counts);
  if (ranks.size > 1) {
    process_group().finish();
    leave_processes();
  }
  return 0;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  saccade::Options o;
  CLI::App app("times a detector");
  app.add_option("--config", o.config)->required();
  app.add_option("--device", o.device);
  app.add_option("--precision", o.precision);
  app.add_option("--set", o.sets);
  app.add_flag("--infer", o.infer);
  app.add_option("--batch", o.batch);
  app.add_option("--height", o.height);
  app.add_option("--width", o.width);
  app.add_option("--sizes", o.sizes);
  app.add_option("--steps", o.steps);
  app.add_option("--ops", o.ops);
  app.add_option("--rank", o.ranks.rank);
  app.add_option("--ranks", o.ranks.size);
  app.add_option("--master", o.ranks.master);
  CLI11_PARSE(app, argc, argv);
  try {
    return saccade::bench(o);
  } catch (const saccade::Error& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 2;
  }
}
