#include "layers/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <typeinfo>

#include "core/kernels/bf16_shadow/bf16_shadow.h"
#include "core/runtime/parallel.h"
#include "core/tensor/execution.h"
#include "core/tensor/prepared.h"

namespace saccade {
namespace {

Tensor filled(const Shape& shape, double value) {
  if (execution().sketch) return Tensor::zeros(Shape::filled(shape.rank(), 1)).expand(shape);
  return Tensor::full(shape, value);
}

// The prefix of the names below a module.
std::string join(const std::string& prefix, const std::string& local) {
  return local.empty() ? prefix : prefix + local + ".";
}

}  // namespace

ModuleScope::ModuleScope(const Module& module)
    : outer_(execution().module), range_([&] { return module.type_name(); }) {
  execution().module = &module;
}

ModuleScope::~ModuleScope() { execution().module = outer_; }

std::string child_name(const std::string& parent, const std::string& local) {
  if (parent.empty() || local.empty()) return parent + local;
  return parent + "." + local;
}

Var Module::param(const std::string& name, const Shape& shape, Initializer init, bool trainable,
                  ParameterResize resize) {
  Var v(filled(shape, 0), trainable);
  entries_.push_back({name, v, std::move(init), false, 0, false, resize});
  return v;
}

Var Module::buffer(const std::string& name, const Shape& shape, double value) {
  Var v(filled(shape, value), false);
  entries_.push_back({name, v, {}, true, value, false});
  return v;
}

void Module::alias(const std::string& name, Var var) {
  entries_.push_back({name, std::move(var), {}, false, 0, true});
}

void Module::collect(const std::string& prefix, std::vector<NamedTensor>& out) const {
  for (const Entry& e : entries_) out.push_back({prefix + e.name, e.var, e.is_buffer, e.resize});
  for (const auto& [name, module] : children_) module->collect(join(prefix, name), out);
}

std::vector<NamedTensor> Module::named_tensors() const {
  std::vector<NamedTensor> out;
  collect("", out);
  return out;
}

std::vector<NamedTensor> Module::parameters() const {
  std::vector<NamedTensor> out;
  std::set<const VarState*> seen;
  for (NamedTensor& t : named_tensors())
    if (!t.is_buffer && seen.insert(t.var.state().get()).second) out.push_back(std::move(t));
  return out;
}

int64_t Module::parameter_count(bool trainable_only) const {
  int64_t n = 0;
  for (const NamedTensor& t : parameters())
    if (!trainable_only || t.var.requires_grad()) n += t.var.value().numel();
  return n;
}

double Module::tensor_bytes() const {
  std::set<const VarState*> seen;
  double bytes = 0;
  for (const NamedTensor& t : named_tensors()) {
    if (!seen.insert(t.var.state().get()).second) continue;
    double elements = 1;
    for (int64_t d : t.var.shape()) elements *= static_cast<double>(d);
    bytes += elements * static_cast<double>(size_of(t.var.dtype()));
  }
  return bytes;
}

void Module::initialize(uint64_t seed) {
  std::vector<InitTask> tasks;
  collect_init(seed, "", tasks);
  // A parameter with several names is drawn once, under the last one.
  std::ranges::reverse(tasks);
  std::set<const VarState*> seen;
  std::erase_if(tasks, [&](const InitTask& task) { return !seen.insert(task.var.state().get()).second; });
  // Every parameter has its own generator, so they can be drawn in parallel and in any order.
  parallel_for(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) tasks[static_cast<size_t>(i)].draw();
  });
  for (InitTask& task : tasks) {
    Tensor& value = task.var.value();
    if (value.storage() == task.values.storage())
      value.bump_version();
    else
      value.copy_from(task.values);
  }
  finish_initialize(seed, "");
}

void Module::InitTask::draw() {
  Rng rng(key);
  init(values, rng);
}

void Module::collect_init(uint64_t seed, const std::string& prefix, std::vector<InitTask>& tasks) const {
  for (const Entry& e : entries_) {
    if (e.is_alias) continue;
    Initializer init = e.is_buffer ? init::constant(e.value) : e.init;
    const Tensor& value = e.var.value();
    const bool in_place =
        value.device() == Device::kCpu && value.dtype() == DType::kF32 && value.is_contiguous();
    tasks.push_back({e.var, in_place ? value : Tensor::empty(e.var.shape()), std::move(init),
                     mix_key(seed, hash_name(prefix + e.name))});
  }
  for (const auto& [name, module] : children_) module->collect_init(seed, join(prefix, name), tasks);
}

void Module::finish_initialize(uint64_t seed, const std::string& prefix) {
  for (auto& [name, module] : children_) module->finish_initialize(seed, join(prefix, name));
  after_initialize(seed, prefix);
}

void Module::after_initialize(uint64_t, const std::string&) {}

void Module::set_training(bool training) {
  training_ = training;
  for (const Entry& e : entries_)
    if (!e.is_buffer) training ? drop_forms(e.var.value()) : keep_forms(e.var.value());
  for (auto& [name, module] : children_) module->set_training(training);
}

void Module::mark_recompute(const std::string& name, NamePatterns& patterns) {
  if (supports_recompute() && patterns.match(name) >= 0) recompute_ = true;
  for (auto& [local, module] : children_) module->mark_recompute(child_name(name, local), patterns);
}

void Module::set_recompute(const std::vector<std::string>& regexes, const std::string& where) {
  NamePatterns patterns(regexes, where);
  mark_recompute("", patterns);
  patterns.finish("module that can recompute, such as transformer.encoder.layers.0");
}

void Module::to(DType dtype) {
  for (Entry& e : entries_) e.var.value() = e.var.value().to(dtype);
  for (auto& [name, module] : children_) module->to(dtype);
}

void Module::to(Device device) {
  for (Entry& e : entries_) {
    e.var.value() = e.var.value().to(device);
    if (!e.is_buffer) keep_bf16_shadow(e.var.value());
  }
  for (auto& [name, module] : children_) module->to(device);
}

std::string Module::type_name() const {
  const std::unique_ptr<char, decltype(&std::free)> full(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, nullptr), &std::free);
  const std::string_view name = full ? full.get() : typeid(*this).name();
  return std::string(name.substr(name.rfind(':') + 1));
}

Device Module::device() const {
  std::vector<NamedTensor> tensors = named_tensors();
  return tensors.empty() ? Device::kCpu : tensors.front().var.device();
}

}  // namespace saccade
