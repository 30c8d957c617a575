// Asks the real cuDNN about GPUs that are only described, on a machine without any: every convolution of
// every recipe, in training and in inference, a batch or an image at a time, must get an engine whose results
// repeat, within its workspace, in every precision. In inference in bf16 each must be one graph with its
// bias, ReLU and residual, so that no question is refused: refused ones are slow. Prints which graphs the
// library takes, how many are refused and how long planning takes.
// Usage: conv_plans [DEVICE.json ...]     all of tests/cudnn/devices if none is named; exit status 77:
// cuDNN is not installed
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/files/file.h"
#include "core/kernels/conv2d/conv2d_as_product.h"
#include "core/kernels/conv2d/conv2d_cuda_plan.h"
#include "core/kernels/conv2d_levels/conv2d_levels.h"
#include "models/classifier.h"
#include "models/detector.h"
#include "models/segmenter.h"
#include "train/checkpoints/load_model.h"
#include "train/config/task.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using cuda::ConvPass;
using cuda::ConvProblem;
using kernels::ConvParams;

// A convolution as a model called it, at any size.
struct Call {
  int64_t H, W, C, O, R, S;
  ConvParams p;
  bool bias, residual, relu;
};
std::vector<Call> calls;

// Replaces the CPU's convolutions: notes the call, and returns zeros.
void note_call(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& residual,
               const ConvParams& p, Activation act, Tensor& y) {
  calls.push_back({x.dim(1), x.dim(2), x.dim(3), w.dim(0), w.dim(2), w.dim(3), p, bias.defined(),
                   residual.defined(), act == Activation::kRelu});
  y.fill(0);
}
void record(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvParams& p, Activation act,
            Tensor& y) {
  note_call(x, w, bias, {}, p, act, y);
}
void record_add_relu(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& residual,
                     const ConvParams& p, Tensor& y) {
  note_call(x, w, bias, residual, p, Activation::kRelu, y);
}
// The GPU adds the shift after the convolution.
void record_relu_shift(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor&,
                       const ConvParams& p, Tensor& y) {
  note_call(x, w, bias, {}, p, Activation::kRelu, y);
}
void record_levels(const Tensor& x, const FeatureLevels& levels, const Tensor& w, const Tensor& bias,
                   Activation act, Tensor& y) {
  for (int64_t l = 0; l < levels.size(); ++l) {
    Tensor map = kernels::level_of_rows(y, levels, l);
    note_call(kernels::level_of_rows(x, levels, l), w, bias, {}, kernels::same_size_conv(w), act, map);
  }
}

constexpr int64_t kSmall = 256;  // the image size at which models are run to see their convolutions

// The convolutions of a training step, or of an evaluation, which may fold norms into them.
struct Recipe {
  Config config;
  bool training = false;
  std::vector<Call> calls;
};
std::vector<Call> calls_of(const Config& config, bool training) {
  ExecutionScope scope;
  execution().grad_enabled = false;
  std::shared_ptr<Module> model =
      build_model(config, config.model().num_classes() > 0 ? config.model().num_classes()
                                                           : task_of(config).usual_classes().count);
  for (const NamedTensor& t : model->named_tensors()) Tensor(t.var.value()).fill(0);
  model->set_training(training);
  calls.clear();
  const auto images = [](int64_t side) { return Var(Tensor::zeros({1, side, side, 3})); };
  if (auto* detector = dynamic_cast<Detector*>(model.get()))
    detector->forward({.images = images(kSmall)});
  else if (auto* segmenter = dynamic_cast<Segmenter*>(model.get()))
    segmenter->forward(images(kSmall));
  else
    dynamic_cast<Classifier&>(*model).forward(images(config.data().val_height()));
  return calls;
}

// Returns the size, on images of `length`, of a map that has `cells` on images of kSmall pixels: `length` is
// halved as often, rounding up.
int64_t at_size(int64_t cells, int64_t length) {
  for (int64_t size = kSmall; size > cells; size /= 2) length = ceil_div(length, 2);
  return length;
}

struct Precision {
  const char* name;
  DType dtype;
  MathMode math;
};
constexpr Precision kPrecisions[] = {{"f32", DType::kF32, MathMode::kExact},
                                     {"tf32", DType::kF32, MathMode::kTf32},
                                     {"bf16", DType::kBF16, MathMode::kExact}};

// Returns the convolutions that go to cuDNN, each once.
std::vector<ConvProblem> problems_of(const Recipe& recipe, int64_t N, int64_t height, int64_t width,
                                     const Precision& precision) {
  const bool scaled = recipe.config.model().type() != "classifier";
  std::vector<ConvProblem> out;
  std::set<std::string> seen;
  for (const Call& c : recipe.calls) {
    const Shape w{c.O, c.C / c.p.groups, c.R, c.S};
    if (kernels::is_strided_product(w, c.p) || c.p.groups == c.O) continue;  // products, depthwise
    for (ConvPass pass : {ConvPass::kForward, ConvPass::kData, ConvPass::kWeight}) {
      if (pass != ConvPass::kForward && !recipe.training) continue;
      if (pass == ConvPass::kData && c.C == 3) continue;  // the images
      ConvProblem q{.pass = pass, .dtype = precision.dtype, .math = precision.math, .N = N};
      q.H = scaled ? at_size(c.H, height) : c.H;
      q.W = scaled ? at_size(c.W, width) : c.W;
      q.C = c.C, q.O = c.O, q.R = c.R, q.S = c.S, q.p = c.p;
      q.OH = kernels::conv_output_size(q.H, q.R, q.p);
      q.OW = kernels::conv_output_size(q.W, q.S, q.p);
      q.bias = pass == ConvPass::kForward && c.bias;
      q.residual = pass == ConvPass::kForward && c.residual;
      q.relu = pass == ConvPass::kForward && c.relu;
      if (seen.insert(q.key().text()).second) out.push_back(q);
    }
  }
  return out;
}

// Returns the processor time of this thread in ms, so that other programs do not count.
double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

// Counts the graphs of a convolution and more that an engine takes, and those that none takes, which cost
// time nevertheless.
struct Fusions {
  int fused = 0, refused = 0;
  double refused_ms = 0;
};

// Plans like the backend: a convolution that cannot be fused runs in two parts.
bool find_plan(cuda::ConvPlanner& planner, ConvProblem q, Fusions& fusions) {
  const double start = now();
  const bool found = planner.make(q).has_value();
  if (!q.fuses()) return found;
  ++(found ? fusions.fused : fusions.refused);
  if (found) return true;
  fusions.refused_ms += now() - start;
  q.bias = q.residual = q.relu = false;
  return planner.make(q).has_value();
}

std::string text(const ConvProblem& q, const Precision& precision) {
  const char* passes[] = {"forward", "data", "weight"};
  return fmt::format("{} {} [{}, {}, {}, {}] by [{}, {}, {}, {}], stride {}", precision.name,
                     passes[static_cast<int>(q.pass)], q.N, q.H, q.W, q.C, q.O, q.C / q.p.groups, q.R, q.S,
                     q.p.stride);
}

// Prints what may follow a convolution in one graph, by precision, and the time that a refusal takes.
void print_fusions(const fs::path& file) {
  cuda::ConvPlanner planner(read_text(file.string(), kTextFile));
  for (const Precision& precision : kPrecisions) {
    std::string taken, refused;
    for (int parts = 1; parts < 8; ++parts) {
      ConvProblem q{.pass = ConvPass::kForward, .dtype = precision.dtype, .math = precision.math, .N = 1};
      q.H = q.W = q.OH = q.OW = 80, q.C = q.O = 128, q.R = q.S = 3, q.p = {.padding = 1};
      q.residual = parts & 1, q.bias = parts & 2, q.relu = parts & 4;
      const std::string name =
          fmt::format("{}{}{}", q.residual ? "+residual" : "", q.bias ? "+bias" : "", q.relu ? "+relu" : "");
      const double start = now();
      if (planner.make(q))
        taken += " " + name;
      else
        refused += fmt::format(" {} ({:.0f} ms)", name, now() - start);
    }
    fmt::print("{} {}: one graph:{}; refused:{}\n", file.stem().string(), precision.name, taken,
               refused.empty() ? " none" : refused);
  }
}

constexpr double kMaxRefusedMs = 50;  // of a recipe's first inference

int check_device(const fs::path& file, const std::vector<Recipe>& recipes) {
  cuda::ConvPlanner planner(read_text(file.string(), kTextFile));
  std::set<std::string> seen;
  int failed = 0;
  Fusions all, inference;
  const double start = now();
  for (const Recipe& recipe : recipes) {
    std::set<int64_t> batches{std::min<int64_t>(recipe.config.data().batch_size(), 16)};
    if (!recipe.training) batches.insert(1);
    for (const int64_t N : batches)
      for (const Precision& precision : kPrecisions) {
        const bool bounded = !recipe.training && precision.dtype == DType::kBF16;
        Fusions own;
        for (auto [height, width] : {std::pair{800, 1066}, {1333, 800}})
          for (const ConvProblem& q : problems_of(recipe, N, height, width, precision)) {
            if (!seen.insert(q.key().text()).second) continue;
            const int refused = own.refused;
            const bool found = find_plan(planner, q, own);
            if (found && !(bounded && own.refused > refused)) continue;
            fmt::print("  {}: {}\n", found ? "not in one graph" : "no engine", text(q, precision));
            ++failed;
          }
        if (bounded && own.refused_ms >= kMaxRefusedMs) {
          fmt::print("  refused questions took {:.0f} ms, at most {:.0f} are allowed\n", own.refused_ms,
                     kMaxRefusedMs);
          ++failed;
        }
        for (Fusions* to : {&all, bounded ? &inference : nullptr}) {
          if (!to) continue;
          to->fused += own.fused;
          to->refused += own.refused;
          to->refused_ms += own.refused_ms;
        }
      }
  }
  fmt::print("{}: {} convolutions, {} failures, the heuristic asked {} times, {:.0f} ms\n",
             file.stem().string(), seen.size(), failed, planner.heuristics(), now() - start);
  for (auto [what, of] : {std::pair{"all", all}, {"inference in bf16", inference}})
    fmt::print("{}, {}: {} are one graph with what follows, {} are refused, which takes {:.0f} ms\n",
               file.stem().string(), what, of.fused, of.refused, of.refused_ms);
  return failed;
}

// Reads the padded sizes of scripts/bench/coco_batches.txt.
std::vector<std::pair<int64_t, int64_t>> coco_sizes() {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  std::ifstream file(SACCADE_SOURCE_DIR "/scripts/bench/coco_batches.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    int64_t height = 0, width = 0;
    for (int64_t h = 0, w = 0; numbers >> h >> w;) height = std::max(height, h), width = std::max(width, w);
    sizes.emplace_back(height, width);
  }
  return sizes;
}

// Times the planning of the steps of Deformable DETR R50 on batches of four, where each new size is planned,
// and for comparison of steps with a planner that knows nothing.
void time_planning(const fs::path& file, const Recipe& recipe) {
  const auto sizes = coco_sizes();
  for (const Precision& precision : kPrecisions) {
    cuda::ConvPlanner planner(read_text(file.string(), kTextFile));
    std::set<std::string> planned;
    std::vector<double> steps;
    Fusions ignored;
    for (auto [height, width] : sizes) {
      const double start = now();
      for (const ConvProblem& q : problems_of(recipe, 4, height, width, precision))
        if (planned.insert(q.key().text()).second) find_plan(planner, q, ignored);
      steps.push_back(now() - start);
    }
    double before = 0;
    constexpr int kSome = 3;
    for (int i = 0; i < kSome; ++i) {
      cuda::ConvPlanner fresh(read_text(file.string(), kTextFile));
      const double start = now();
      for (const ConvProblem& q : problems_of(recipe, 4, sizes[i].first, sizes[i].second, precision))
        find_plan(fresh, q, ignored);
      before += (now() - start) / kSome;
    }
    double sum = 0;
    for (double s : steps) sum += s;
    std::sort(steps.begin(), steps.end());
    fmt::print(
        "{} {}: {} COCO batches of Deformable DETR R50, ms of planning a step: mean {:.2f}, median {:.2f}, largest {:.1f}; "
        "a planner that knows nothing {:.1f}; the heuristic asked {} times for {} plans\n",
        file.stem().string(), precision.name, steps.size(), sum / static_cast<double>(steps.size()),
        steps[steps.size() / 2], steps.back(), before, planner.heuristics(), planned.size());
  }
}

int run(const std::vector<std::string>& names) {
  try {
    cuda::cudnn();
  } catch (const Error& e) {
    fmt::print("skipped: {}\n", e.what());
    return 77;
  }
  kernels::conv2d_forward.set_tuned(Device::kCpu, &record);
  kernels::conv2d_add_relu.set_tuned(Device::kCpu, &record_add_relu);
  kernels::conv2d_relu_shift.set_tuned(Device::kCpu, &record_relu_shift);
  kernels::conv2d_levels_forward.set_tuned(Device::kCpu, &record_levels);
  std::vector<Recipe> recipes;
  Recipe r50;
  for (const auto& entry : fs::directory_iterator(SACCADE_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".textproto") continue;
    const Config config = resolve_config(load_config(entry.path().string()));
    for (bool training : {false, true}) recipes.push_back({config, training, calls_of(config, training)});
    if (entry.path().stem() == "deformable_detr_r50") r50 = recipes.back();
  }
  std::vector<fs::path> devices(names.begin(), names.end());
  if (devices.empty())
    for (const auto& entry : fs::directory_iterator(SACCADE_SOURCE_DIR "/tests/cudnn/devices"))
      devices.push_back(entry.path());
  std::sort(devices.begin(), devices.end());
  int failed = 0;
  for (const fs::path& device : devices) {
    print_fusions(device);
    failed += check_device(device, recipes);
    time_planning(device, r50);
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) { return saccade::run({argv + 1, argv + argc}); }
