// Tests the training loop on a tiny model: exact resume (after a stop, an exception and SIGKILL),
// accumulation, diagnosis.
#include "train/loop/trainer.h"
#include "models/detection/set_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <simdjson.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>

#include "core/runtime/interrupt.h"
#include "core/tensor/philox.h"
#include "models/detection/criterion.h"
#include "tests/input_error.h"
#include "tests/models/schema_args.h"
#include "tests/objects.h"
#include "tests/test_folder.h"
#include "train/checkpoints/checkpoint.h"
#include "train/inference/model_input.h"

extern char** environ;

namespace saccade {
namespace {

// Passes the mean colour of each image through two layers with dropout, for one query and one class. Has a
// buffer that training moves.
class TinyDetector : public Module {
 public:
  explicit TinyDetector(double drop = 0.3) : drop_(drop) {
    auto normal = [](Tensor& t, Rng& rng) {
      for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(0.3 * rng.normal());
    };
    w1_ = param("layer1.weight", {16, 3}, normal);
    b1_ = param("layer1.bias", {16}, normal);
    w2_ = param("bbox_embed.0.weight", {4, 16}, normal);
    alias("bbox_embed.1.weight", w2_);
    mean_ = buffer("running_mean", {3}, 0);
  }
  SetOutput forward(const DetectorInput& input) {
    const int axes[] = {1, 2};
    Var colour = mean(input.images, axes);  // [N, 3]
    if (training()) {
      const int first[] = {0};
      mean_.value().copy_from(
          add(mul_scalar(mean_, 0.9), mul_scalar(mean(colour, first).detach(), 0.1)).value());
    }
    Var hidden = dropout(relu(linear(colour, w1_, b1_)), drop_, training());
    if (poison == -1) poison = 0;
    if (poison > 0 && --poison == 0) hidden = log(mul_scalar(add_scalar(square(hidden), 1), -1));
    Var boxes = reshape(linear(hidden, w2_, Var()), {input.images.dim(0), 1, 4});
    SetOutput out;
    out.layers.push_back({boxes, boxes});
    return out;
  }
  std::string type_name() const override { return "TinyDetector"; }
  int poison = -1;  // the forward pass, counted from 1, that makes NaN

 private:
  double drop_;
  Var w1_, b1_, w2_, mean_;
};

constexpr int64_t kBatches = 5;  // an epoch

Batch make_batch(int64_t epoch, int64_t index, int64_t size) {
  Batch batch;
  batch.epoch = epoch;
  batch.index = index;
  std::vector<uint8_t> bytes;
  for (int64_t n = 0; n < size; ++n) {
    Rng rng(mix_key(7, static_cast<uint64_t>((epoch * kBatches + index) * size + n)));
    for (int i = 0; i < 4 * 4 * 3; ++i) bytes.push_back(static_cast<uint8_t>(rng.below(256)));
    Target t;
    t.image_id = 100 * index + n;
    t.file_name = fmt::format("{}.jpg", t.image_id);
    t.height = t.width = 4;
    for (int64_t k = rng.below(3); k > 0; --k) {  // some images are empty
      std::array<float, 4> box;
      for (float& v : box) v = static_cast<float>(rng.uniform());
      test::add_object(t, 0, box);
    }
    batch.targets.push_back(t);
  }
  batch.images = Tensor::from(Shape{size, 4, 4, 3}, bytes);
  return batch;
}

// Returns the squared distance to every object of the image.
TrainingLoss box_loss(const SetOutput& out, const std::vector<Target>& targets, const StepImages& step) {
  const Device device = out.layers[0].boxes.device();
  Var total(Tensor::zeros({}, DType::kF32, device));
  for (size_t n = 0; n < targets.size(); ++n) {
    auto i = static_cast<int64_t>(n);
    const Objects objects({targets[n]});
    const int64_t count = objects.count();
    if (count == 0) continue;
    Var box = reshape(slice(out.layers[0].boxes, 0, i, i + 1), {1, 4});
    total = add(total, sum(square(sub(box, Var(Tensor::from(Shape{count, 4}, objects.boxes, device))))));
  }
  // The empty batch has a gradient too: zero.
  total = mul_scalar(add(total, mul_scalar(sum(out.layers[0].logits), 0)),
                     1.0 / static_cast<double>(std::max<int64_t>(step.objects(), 1)));
  return {total, {{"bbox", total.value()}}};
}

class TinyTask : public TrainingTask {
 public:
  TinyTask(double drop, int64_t size) : detector(drop), batch_size(size) {}
  Module& model() override { return detector; }
  std::vector<std::string> class_names() const override { return {"thing \"quoted\""}; }
  std::vector<int64_t> category_ids() const override { return {category_id}; }
  int64_t batches_per_epoch() const override { return kBatches; }
  std::function<Batch()> open_batches(int64_t epoch, int64_t index) override {
    return [this, epoch, index]() mutable {
      if (batches_until_death == 0) throw std::runtime_error("killed");
      --batches_until_death;
      if (--batches_until_signal == 0) ::raise(SIGHUP);
      Batch b = make_batch(epoch, index, batch_size);
      if (++index == epoch_length) {
        index = 0;
        ++epoch;
      }
      return b;
    };
  }
  TrainingLoss loss(const Batch& batch, const StepImages& step,
                    const std::function<void()>& forward_done) override {
    SetOutput output = detector.forward(detector_input(batch, {}, detector.device()));
    forward_done();
    return criterion(output, batch.targets, step);
  }
  std::vector<std::string> primary_metrics() const override { return {"AP", "AP50"}; }
  Metrics evaluate(bool) override {
    if (--evaluations_until_signal == 0) ::raise(SIGTERM);
    check_interrupt();
    // Any deterministic function of the weights.
    double s = 0;
    for (const NamedTensor& t : detector.parameters())
      for (float v : t.var.value().to_vector<float>()) s += std::sin(10 * static_cast<double>(v));
    const auto next = std::min<size_t>(static_cast<size_t>(evaluations++), values.size() - 1);
    return {{"AP", s * s / (1 + s * s)}, {"AP50", values[next]}};
  }

  TinyDetector detector;
  int64_t batch_size, category_id = int64_t{1} << 40, epoch_length = kBatches, batches_until_death = -1;
  int64_t evaluations_until_signal = -1, batches_until_signal = -1;
  std::vector<double> values{0.5};  // AP50 of one evaluation after the other
  int64_t evaluations = 0;
  std::function<TrainingLoss(const SetOutput&, const std::vector<Target>&, const StepImages&)> criterion =
      box_loss;
};

struct TinyRun {
  TinyTask task;
  TrainerOptions options;

  explicit TinyRun(const std::string& output, int64_t batch_size = 4, double drop = 0.3,
                   Device device = Device::kCpu)
      : task(drop, batch_size) {
    task.detector.to(device);
    options.device = device;
    options.output = output;
    options.quiet = true;
    options.config = resolve_config(parse_config(
        "train { epochs: 4 ema_decay: 0.9 log_every: 1 checkpoint_every_steps: 3 eval_every_epochs: 1 } "
        "schedule { type: \"cosine\" warmup_steps: 2 } optimizer { learning_rate: 0.05 } seed: 3",
        "test"));
  }
  std::string file(const std::string& name) const { return options.output + "/checkpoints/" + name; }
  TrainingResult run(bool resume = false, int64_t stop = 0) {
    options.resume = resume;
    options.stop_at_step = stop;
    return train(options, task);
  }
};

// Returns (type, step) of every line of metrics.jsonl.
std::vector<std::pair<std::string, int64_t>> logged(const std::string& output) {
  std::vector<std::pair<std::string, int64_t>> out;
  std::string text = read_bytes(output + "/metrics.jsonl");
  simdjson::dom::parser parser;
  simdjson::dom::document_stream stream;
  EXPECT_EQ(parser.parse_many(text).get(stream), simdjson::SUCCESS);
  for (auto line : stream) {
    std::string_view type;
    int64_t step = 0;
    EXPECT_EQ(line["type"].get(type), simdjson::SUCCESS);
    EXPECT_EQ(line["step"].get(step), simdjson::SUCCESS);
    out.emplace_back(std::string(type), step);
  }
  return out;
}

void expect_equal_runs(const TinyRun& a, const TinyRun& b) {
  for (const char* name : {"last.safetensors", "best.safetensors"}) {
    std::string x = read_bytes(a.file(name)), y = read_bytes(b.file(name));
    EXPECT_FALSE(x.empty()) << name;
    EXPECT_TRUE(x == y) << name << " differs";
  }
  EXPECT_EQ(logged(a.options.output), logged(b.options.output));
}

class TrainerOn : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam() == Device::kCuda && !cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, TrainerOn, testing::Values(Device::kCpu));
INSTANTIATE_TEST_SUITE_P(Cuda, TrainerOn, testing::Values(Device::kCuda));

TEST(Trainer, RunsRepeatAndReport) {
  TestFolder folder;
  TinyRun a(folder / "a"), b(folder / "b");
  TrainingResult result = a.run();
  b.run();
  EXPECT_EQ(result.step, 4 * kBatches);
  expect_equal_runs(a, b);
  EXPECT_EQ(logged(a.options.output).size(), 4u * kBatches + 4u);
  CheckpointInfo info = read_checkpoint_info(SafetensorsReader(a.file("last.safetensors")));
  EXPECT_EQ(info.class_names, a.task.class_names());
  EXPECT_EQ(info.category_ids, a.task.category_ids());
  EXPECT_EQ(info.step, 20);
  EXPECT_EQ(info.epoch, 4);
  EXPECT_EQ(info.batch, 0);
  EXPECT_EQ(info.best_metric, result.best_metric);
  EXPECT_EQ(info.config, config_text(a.options.config));
  // best holds the averages under the model's names and nothing else; last holds both.
  SafetensorsReader best(a.file("best.safetensors"));
  EXPECT_EQ(best.entries().size(), 5u);
  EXPECT_EQ(read_checkpoint_info(best).best_step, result.best_step);
  EXPECT_EQ(best.read("bbox_embed.0.weight").to_vector<float>(),
            best.read("bbox_embed.1.weight").to_vector<float>());
  TinyDetector loaded;
  load_model(best, loaded);
  load_model(SafetensorsReader(a.file("last.safetensors")), loaded);
  // A second run in the same folder is a mistake.
  EXPECT_THROW(a.run(), InputError);
}

// AP50 of the tiny task never rises after its first evaluation, at step 5.
TEST(Trainer, PatienceEndsARunAndItsResumption) {
  TestFolder folder;
  struct PatientRun : TinyRun {
    explicit PatientRun(const std::string& output) : TinyRun(output) {
      options.config.mutable_train()->set_best_metric("AP50");
      options.config.mutable_train()->set_patience(2);
    }
  };
  PatientRun whole(folder / "whole");
  const TrainingResult result = whole.run();
  EXPECT_EQ(result.reason, StopReason::kPatience);
  EXPECT_EQ(result.best_name, "AP50");
  EXPECT_EQ(result.best_step, 3 * kBatches);  // of equal ones the newest
  EXPECT_EQ(result.step, 3 * kBatches);
  for (int64_t stop : {7, 10, 14}) {
    PatientRun parts(folder / fmt::format("stop{}", stop));
    parts.run(false, stop);
    EXPECT_EQ(PatientRun(parts.options.output).run(true).step, 3 * kBatches);
    expect_equal_runs(whole, parts);
  }
  const TrainingResult again = PatientRun(whole.options.output).run(true);
  EXPECT_EQ(again.reason, StopReason::kPatience);
  EXPECT_EQ(again.step, 3 * kBatches);
  PatientRun more(whole.options.output);
  more.options.config.mutable_train()->set_patience(0);
  EXPECT_EQ(more.run(true).step, 4 * kBatches);

  TinyRun wrong(folder / "wrong");
  wrong.options.config.mutable_train()->set_best_metric("AP51");
  EXPECT_TRUE(input_error([&] {
                wrong.run();
              }).starts_with("train.best_metric: \"AP51\" is not known, expected one of AP, AP50"));
}

// The evaluations follow the steps 5, 10, 15 and 20.
TEST(Trainer, OfEqualMetricsTheNewestIsTheBestAndZerosTakeNoPatience) {
  struct Row {
    std::vector<double> values;
    int64_t best_step, steps;
  };
  TestFolder folder;
  for (int n = 0; const Row& row : std::vector<Row>{{{0, 0, 0, 0}, 20, 20},
                                                    {{0, 0, 0.5, 0.5}, 20, 20},
                                                    {{0, 0.5, 0.25, 0.25}, 10, 20},
                                                    {{0.5, 0.25, 0.5, 0.5}, 15, 15},
                                                    {{0.25, 0.5, 0.5, 0.5}, 20, 20},
                                                    {{1, 1, 1, 1}, 15, 15}}) {
    TinyRun run(folder / std::to_string(n++));
    run.options.config.mutable_train()->set_best_metric("AP50");
    run.options.config.mutable_train()->set_patience(2);
    run.task.values = row.values;
    const TrainingResult result = run.run();
    EXPECT_EQ(result.best_step, row.best_step) << n;
    EXPECT_EQ(result.step, row.steps) << n;
    EXPECT_EQ(result.best_metric, *std::max_element(row.values.begin(), row.values.end())) << n;
    EXPECT_EQ(read_checkpoint_info(SafetensorsReader(run.file("best.safetensors"))).step, row.best_step) << n;
  }
}

TEST_P(TrainerOn, StopAndResumeEndsInTheSameBits) {
  TestFolder folder;
  auto run_in = [](const std::string& output) { return TinyRun(output, 4, 0.3, GetParam()); };
  TinyRun whole = run_in(folder / "whole");
  whole.run();
  for (int64_t stop : {1, 5, 8, 13}) {
    TinyRun parts = run_in(folder / fmt::format("stop{}", stop));
    parts.run(false, stop);
    EXPECT_EQ(read_checkpoint_info(SafetensorsReader(parts.file("last.safetensors"))).step, stop);
    EXPECT_TRUE(std::filesystem::exists(parts.file("best.safetensors")));
    run_in(parts.options.output).run(true, stop + 2);
    run_in(parts.options.output).run(true);
    expect_equal_runs(whole, parts);
    // Resuming a finished run changes nothing.
    run_in(parts.options.output).run(true);
    expect_equal_runs(whole, parts);
  }
}

TEST(Trainer, DeathAtAnyBatchResumesInTheSameBits) {
  TestFolder folder;
  TinyRun whole(folder / "whole");
  whole.run();
  for (int64_t death : {0, 1, 4, 7, 11, 19}) {
    TinyRun dying(folder / fmt::format("death{}", death));
    dying.task.batches_until_death = death;
    EXPECT_THROW(dying.run(), std::runtime_error);
    // A run that ended before its first batch has written nothing.
    EXPECT_EQ(std::filesystem::exists(dying.options.output), death > 0);
    std::filesystem::create_directories(dying.options.output + "/checkpoints");
    write_bytes(dying.file(".last.safetensors.tmp"), "half a checkpoint");
    TinyRun(dying.options.output).run(true);
    expect_equal_runs(whole, dying);
    EXPECT_FALSE(std::filesystem::exists(dying.file(".last.safetensors.tmp")));
  }
}

// KilledProcess starts this; the folder comes in the environment.
TEST(TrainerChild, DISABLED_Run) {
  const char* folder = std::getenv("SACCADE_TEST_RUN");
  ASSERT_NE(folder, nullptr);
  TinyRun setup(folder);
  // Long enough that a kill comes before the end, however late it is.
  setup.options.config.mutable_train()->set_epochs(60);
  setup.options.config.mutable_train()->set_checkpoint_every_steps(1);
  setup.run(true);
}

TEST(Trainer, KilledProcessResumesInTheSameBits) {
  TestFolder folder;
  auto spawn = [](const std::string& output) {
    ::setenv("SACCADE_TEST_RUN", output.c_str(), 1);
    for (const char* part : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"})
      ::unsetenv(part);  // the child has one test, whichever part of the tests its parent has
    std::string filter = "--gtest_filter=TrainerChild.*", all = "--gtest_also_run_disabled_tests";
    char* arguments[] = {const_cast<char*>("test"), filter.data(), all.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return child;
  };
  auto wait_for = [](pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  };
  TinyRun whole(folder / "whole"), killed(folder / "killed");
  EXPECT_EQ(wait_for(spawn(whole.options.output)), 0);
  const std::string log = killed.options.output + "/metrics.jsonl";
  // Each kill comes at another moment of a step, among them while a checkpoint is written.
  for (size_t lines : {2, 9, 17, 24}) {
    pid_t child = spawn(killed.options.output);
    auto written = [&] {
      std::string text = std::filesystem::exists(log) ? read_bytes(log) : "";
      return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    };
    const auto begin = std::chrono::steady_clock::now();
    while (written() < lines) {
      ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(5)) << log;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(child, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(wait_for(child)));
  }
  EXPECT_EQ(wait_for(spawn(killed.options.output)), 0);
  expect_equal_runs(whole, killed);
}

// A signal during an evaluation leaves it due; one in a step lets the step end. Either way the run that
// continues equals one that never stopped.
TEST(Trainer, SignalsAnywhereResumeInTheSameBits) {
  TestFolder folder;
  TinyRun whole(folder / "whole");
  whole.run();
  struct Case {
    int64_t evaluation, batch, step;  // where the signal comes, and the last step that is done
  };
  for (const Case& c : {Case{1, -1, 5}, {3, -1, 15}, {4, -1, 20}, {-1, 1, 1}, {-1, 8, 8}, {-1, 10, 10}}) {
    SCOPED_TRACE(fmt::format("evaluation {} batch {}", c.evaluation, c.batch));
    TinyRun parts(folder / fmt::format("signal_{}_{}", c.evaluation, c.batch));
    parts.task.evaluations_until_signal = c.evaluation;
    parts.task.batches_until_signal = c.batch;
    {
      InterruptScope scope;
      TrainingResult result = parts.run();
      EXPECT_EQ(result.reason, StopReason::kSignal);
      EXPECT_EQ(result.step, c.step);
    }
    EXPECT_EQ(read_checkpoint_info(SafetensorsReader(parts.file("last.safetensors"))).step, c.step);
    TinyRun(parts.options.output).run(true);
    expect_equal_runs(whole, parts);
  }
}

TEST(Trainer, AccumulationEqualsALargeBatch) {
  TestFolder folder;
  // Batches of 8 images against two batches of 4: make_batch numbers its images so that both see the same
  // ones.
  auto run = [&](const std::string& name, int64_t size, int accumulate) {
    TinyRun s(folder / name, size, 0);
    s.options.config.mutable_train()->set_accumulate(accumulate);
    s.options.config.mutable_train()->set_epochs(0);
    s.options.config.mutable_train()->set_max_steps(6);
    s.options.config.mutable_train()->set_eval_every_epochs(0);
    s.task.epoch_length = 1000;
    s.run();
    return SafetensorsReader(s.file("last.safetensors")).read("layer1.weight").to_vector<float>();
  };
  auto large = run("large", 8, 1), small = run("small", 4, 2);
  ASSERT_EQ(large.size(), small.size());
  // The same sums in another order: f32 rounding, amplified by Adam's division in the first steps.
  for (size_t i = 0; i < large.size(); ++i) EXPECT_NEAR(large[i], small[i], 2e-5);
}

TEST_P(TrainerOn, NonFiniteLossStopsWithADiagnosis) {
  TestFolder folder;
  TinyRun s(folder / "run", 4, 0.3, GetParam());
  s.task.detector.poison = 8;
  // The diagnosis repeats the forward pass, whose result must be bad again.
  auto loss = s.task.criterion;
  s.task.criterion = [&](const SetOutput& out, const std::vector<Target>& targets, const StepImages& step) {
    TrainingLoss l = loss(out, targets, step);
    if (!std::isfinite(l.total.value().item())) s.task.detector.poison = 1;
    return l;
  };
  try {
    s.run();
    FAIL() << "trained on";
  } catch (const InputError&) {
    FAIL() << "the input is not at fault";
  } catch (const Error& e) {
    std::string m = e.what();
    for (const char* part :
         {"step 8", "loss is not finite; an optimizer.learning_rate below ", "batch 2 of epoch 1",
          "image 200 (200.jpg)", "op log", "NaN", "last.safetensors keeps step 6"})
      EXPECT_NE(m.find(part), std::string::npos) << part << " not in: " << m;
  }
  EXPECT_EQ(read_checkpoint_info(SafetensorsReader(s.file("last.safetensors"))).step, 6);
  // If the fault is gone the next time, the run resumes.
  EXPECT_EQ(TinyRun(s.options.output, 4, 0.3, GetParam()).run(true).step, 20);
}

// The set criterion finds which predictions are bad; the trainer's message names them.
TEST_P(TrainerOn, NonFinitePredictionsAreNamedWithTheirImages) {
  TestFolder folder;
  TinyRun s(folder / "run", 4, 0.3, GetParam());
  s.task.detector.poison = 3;
  s.task.criterion = [&](const SetOutput& out, const std::vector<Target>& targets, const StepImages& step) {
    const SetCriterion criterion(CriterionOptions::read(test::schema_criterion()));
    DetectionLoss l = criterion.forward(out, targets, step);
    if (!l.problems.empty()) s.task.detector.poison = 1;
    return TrainingLoss{.total = l.total, .parts = l.parts, .problems = l.problems};
  };
  try {
    s.run();
    FAIL() << "trained on";
  } catch (const Error& e) {
    std::string m = e.what();
    for (const char* part :
         {"step 3", "op log", "(201.jpg), the last layer: the predicted box of query 0 is not finite"})
      EXPECT_NE(m.find(part), std::string::npos) << part << " not in: " << m;
  }
}

TEST_P(TrainerOn, NonFiniteGradientNamesTheBatchAndSavesNothing) {
  TestFolder folder;
  TinyRun s(folder / "run", 4, 0.3, GetParam());
  s.options.config.mutable_train()->set_accumulate(2);
  auto loss = s.task.criterion;
  // sqrt has an infinite slope at 0: a finite loss with a bad gradient, in the images of batch 3.
  s.task.criterion = [&](const SetOutput& out, const std::vector<Target>& targets, const StepImages& step) {
    TrainingLoss l = loss(out, targets, step);
    if (targets[0].image_id == 300) l.total = add(l.total, sum(sqrt(mul_scalar(out.layers[0].boxes, 0))));
    return l;
  };
  try {
    s.run();
    FAIL() << "trained on";
  } catch (const Error& e) {
    std::string m = e.what();
    for (const char* part :
         {"step 2", "gradient is not finite", "batch 3 of epoch 0", "image 300", "sqrt", "keeps step 0"})
      EXPECT_NE(m.find(part), std::string::npos) << part << " not in: " << m;
  }
  EXPECT_EQ(read_checkpoint_info(SafetensorsReader(s.file("last.safetensors"))).step, 0);
}

TEST(Trainer, EndsByTime) {
  TestFolder folder;
  TinyRun s(folder / "run");
  s.options.config.mutable_train()->set_max_minutes(1e-9);
  TrainingResult result = s.run();
  EXPECT_EQ(result.step, 1);
  EXPECT_FALSE(result.metrics.empty());
  EXPECT_TRUE(std::filesystem::exists(s.file("best.safetensors")));
}

TEST(Trainer, RefusesForeignCheckpoints) {
  TestFolder folder;
  TinyRun s(folder / "run");
  s.run(false, 2);
  TinyRun classes(folder / "run");
  classes.task.category_id = 5;
  EXPECT_THROW(classes.run(true), InputError);
  TinyRun seed(folder / "run");
  seed.options.config.set_seed(99);
  EXPECT_THROW(seed.run(true), InputError);
}

}  // namespace
}  // namespace saccade
