#include "train/loop/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/engine.h"
#include "autograd/scope.h"
#include "train/checkpoints/checkpoint.h"

namespace saccade {
namespace {

struct BadNumbers {
  int64_t nan = 0, infinite = 0;
};

BadNumbers count_bad(const Tensor& t) {
  BadNumbers bad;
  if (!t.defined() || !is_float(t.dtype())) return bad;
  for (float v : t.to_vector<float>()) {
    bad.nan += std::isnan(v);
    bad.infinite += std::isinf(v);
  }
  return bad;
}

void name_modules(const Module& module, const std::string& name, std::map<const void*, std::string>& names) {
  names[&module] = fmt::format("{} ({})", name.empty() ? "the model" : name, module.type_name());
  for (const auto& [key, child] : module.children()) name_modules(*child, child_name(name, key), names);
}

class FirstBadOp : public OpObserver {
 public:
  explicit FirstBadOp(const Module& model) { name_modules(model, "", names_); }

  void observe(const Op& op) override {
    // Infinities may be intentional (masks), so a NaN, even a later one, is the better finding.
    if (!first_nan_.empty()) return;
    BadNumbers bad = count_bad(op.output);
    std::string& slot = bad.nan ? first_nan_ : first_infinite_;
    if (bad.nan + bad.infinite == 0 || !slot.empty()) return;
    std::string shapes;
    for (const Tensor& t : op.inputs)
      if (t.defined()) shapes += (shapes.empty() ? "" : ", ") + t.shape().to_string();
    auto it = names_.find(op.module);
    slot =
        fmt::format("op {} in {}: {} of the {} numbers of its output {} are {} (inputs {})", op.name,
                    it == names_.end() ? "the loss" : it->second, bad.nan ? bad.nan : bad.infinite,
                    op.output.numel(), op.output.shape().to_string(), bad.nan ? "NaN" : "infinite", shapes);
  }
  std::string finding() const { return first_nan_.empty() ? first_infinite_ : first_nan_; }

 private:
  std::map<const void*, std::string> names_;
  std::string first_nan_, first_infinite_;
};

}  // namespace

std::string diagnose_nonfinite(const Module& model, const std::function<TrainingLoss()>& run) {
  if (std::string name = first_nonfinite(model); !name.empty())
    return fmt::format("the model's tensor {} holds NaN or infinity", name);
  FirstBadOp observer(model);
  ExecutionScope scope;
  execution().observer = &observer;
  TrainingLoss loss = run();
  execution().observer = nullptr;
  BadNumbers bad = count_bad(loss.total.value());
  if (bad.nan + bad.infinite > 0) {
    constexpr size_t kShown = 4;
    std::string finding = observer.finding().empty() ? "the loss itself, though every op's output is finite"
                                                     : observer.finding();
    for (size_t i = 0; i < std::min(loss.problems.size(), kShown); ++i) finding += "; " + loss.problems[i];
    if (loss.problems.size() > kShown) finding += fmt::format("; and {} more", loss.problems.size() - kShown);
    return finding;
  }
  try {
    backward_checked(loss.total);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::string remedy_of_divergence(const Config& config) {
  return fmt::format("an optimizer.learning_rate below {:g} or a longer warm-up usually prevents this",
                     config.optimizer().learning_rate());
}

std::string images_of(const Batch& batch) {
  std::string out;
  for (const Target& t : batch.targets)
    out += fmt::format("{}image {} ({})", out.empty() ? "" : ", ", t.image_id, t.file_name);
  return out;
}

}  // namespace saccade
