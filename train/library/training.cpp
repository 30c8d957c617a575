// Training in libsaccade: the trainer's run, one step per call.
#include <exception>
#include <optional>

#include "core/tensor/execution.h"
#include "train/checkpoints/run_folder.h"
#include "train/config/config.h"
#include "train/config/options.h"
#include "train/config/task.h"
#include "train/inference/device_choice.h"
#include "train/library/boundary.h"
#include "train/library/saccade.hpp"
#include "train/loop/training_run.h"

namespace saccade {

namespace {

TrainerOptions trainer_options(const TrainingSetup& setup) {
  TrainerOptions options;
  Config config = load_config(setup.config, setup.set);
  validate_for_training(config);
  options.device = choose_device(setup.device).device;
  resolve_precision(config, options.device, setup.resume ? setup.output : "");
  options.config = resolve_config(config);
  if (setup.output.empty()) fail_input("output: not given, expected the folder of the run");
  if (setup.resume && !setup.init_from.empty())
    fail_input("init_from and resume cannot be combined: one starts a new run, the other continues one");
  if (!setup.init_key.empty() && setup.init_from.empty())
    fail_input("init_key names an entry of init_from, which is not given");
  options.output = setup.output;
  options.resume = setup.resume;
  options.init_from = setup.init_from;
  options.init_key = setup.init_key;
  options.quiet = true;
  return options;
}

}  // namespace

class Training::Impl {
 public:
  explicit Impl(const TrainingSetup& setup) : options_(trainer_options(setup)), folder_(options_.output) {}
  ~Impl() {
    const GpuTurn turn(options_.device);
    run_.reset();
    task_.reset();
  }

  void begin() {
    const ComputeScope compute(options_.device);
    task_ = task_of(options_.config).training(options_.config);
    run_.emplace(options_, *task_, folder_);
    if (!options_.resume) folder_.refuse_run();
    const auto& modules = options_.config.train().recompute();
    task_->model().set_recompute({modules.begin(), modules.end()}, "train.recompute");
    ExecutionScope scope;
    run_->begin();
  }

  bool step() {
    if (ended_) return false;
    if (failure_)
      std::rethrow_exception(
          failure_);  // never reports completion after a failure, such as that of the last step's evaluation
    const ComputeScope compute(options_.device);
    ExecutionScope scope;
    try {
      if (run_->go_on()) return true;
      run_->end();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
    ended_ = true;
    return false;
  }
  void save() {
    const ComputeScope compute(options_.device);
    ExecutionScope scope;
    run_->save();
  }
  const TrainingRun& run() const { return *run_; }

 private:
  TrainerOptions options_;
  RunFolder folder_;
  std::unique_ptr<TrainingTask> task_;
  std::optional<TrainingRun> run_;
  bool ended_ = false;
  std::exception_ptr failure_;
};

Training::Training(const TrainingSetup& setup)
    : impl_(with_standard_errors([&] {
        auto impl = std::make_unique<Impl>(setup);
        impl->begin();
        return impl;
      })) {}
Training::~Training() = default;
Training::Training(Training&&) noexcept = default;
Training& Training::operator=(Training&&) noexcept = default;

bool Training::step() {
  return with_standard_errors([&] { return impl_->step(); });
}
int64_t Training::steps_done() const { return impl_->run().steps_done(); }
std::map<std::string, double> Training::metrics() const {
  const Metrics& metrics = impl_->run().step_metrics();
  return {metrics.begin(), metrics.end()};
}
void Training::save() {
  with_standard_errors([&] { impl_->save(); });
}

}  // namespace saccade
