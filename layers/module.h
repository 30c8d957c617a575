// Module: a named tree of parameters and buffers. Full names are dotted paths equal to the official PyTorch
// names, so that official checkpoints load without a map. Modules are neither copied nor moved.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/var.h"
#include "core/runtime/profile_range.h"
#include "layers/init.h"
#include "layers/name_patterns.h"

namespace saccade {

// Converts a parameter that was made for images of one size (positions) to another size: from f32 values on
// the CPU to a tensor of the given shape. Returns an undefined tensor if that is not possible.
using ParameterResize = Tensor (*)(const Tensor& values, const Shape& to);

// A parameter (trainable unless frozen) or a buffer (running statistics, never trained) with its full name.
struct NamedTensor {
  std::string name;
  Var var;
  bool is_buffer = false;
  ParameterResize resize = nullptr;  // null if it has only one shape
};

// The tensors of a model whose rows belong to queries, group after group, and the prefix of a list that has
// one entry per group ("enc_output.").
struct QueryTables {
  std::vector<std::string> names;
  std::string one_a_group;
  int64_t groups = 1;
};

// The full name of a child. A child with an empty local name shares its parent's name: its tensors appear as
// the parent's own (a classifier around a backbone).
std::string child_name(const std::string& parent, const std::string& local);

class Module;

// While one lives, observers of ops (summary, diagnosis, profilers) know that this module is running.
class ModuleScope {
 public:
  explicit ModuleScope(const Module& module);
  ~ModuleScope();
  ModuleScope& operator=(ModuleScope&&) = delete;

 private:
  const void* outer_;
  ProfileRange range_;
};

// Runs module.forward(inputs...) in the module's scope.
template <class M, class... A>
decltype(auto) call(M& module, A&&... inputs) {
  ModuleScope scope(module);
  return module.forward(std::forward<A>(inputs)...);
}

// A module held by its owner: norm_(x) calls it.
template <class M>
class Child : public std::shared_ptr<M> {
 public:
  using std::shared_ptr<M>::shared_ptr;
  Child(std::shared_ptr<M> module) : std::shared_ptr<M>(std::move(module)) {}
  template <class... A>
  decltype(auto) operator()(A&&... inputs) const {
    return call(**this, std::forward<A>(inputs)...);
  }
};

// A module computes in forward(), with arguments and results of its own. Others run it with call() or through
// a Child, so that observers know which module is running.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module& operator=(Module&&) = delete;

  // All parameters and buffers in registration order, depth first. A tensor that is registered under several
  // names (a shared head) appears once per name, with the same Var state.
  std::vector<NamedTensor> named_tensors() const;
  // Parameters only, each once (under its first name).
  std::vector<NamedTensor> parameters() const;
  int64_t parameter_count(bool trainable_only = false) const;
  // Bytes of all parameters and buffers, even if a sketch (core/tensor/execution.h) has no memory for them.
  double tensor_bytes() const;

  // Draws the initial values of every parameter from (seed, full name): adding a layer changes no other
  // layer's values.
  void initialize(uint64_t seed);

  void set_training(bool training);  // the whole tree
  bool training() const { return training_; }

  // Switches activation recomputation (see autograd/engine.h, recomputed) on for the modules that support it
  // and whose full name matches one of the regexes. Throws InputError for a regex that matches none of them;
  // `where` names the option that gave them.
  void set_recompute(const std::vector<std::string>& regexes, const std::string& where = "recomputation");
  bool recompute() const { return recompute_; }
  virtual bool supports_recompute() const { return false; }

  // Converts every parameter and buffer in place; f64 is for gradient checks.
  void to(DType dtype);
  // Moves every parameter and buffer.
  void to(Device device);
  Device device() const;  // of the first tensor; the CPU if there is none

  // Children in registration order with their local names, for summaries.
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }
  // "Linear", "MSDeformAttn", ...: the class's name, unless overridden.
  virtual std::string type_name() const;

  // For models: the prefixes of the names of tensors that depend on the classes, for fine-tuning on other
  // classes.
  virtual std::vector<std::string> class_heads() const { return {}; }
  // For models: the prefixes of lists of heads with one entry per layer ("bbox_embed."). If a file has only
  // the first entry, it is used for all.
  virtual std::vector<std::string> repeated_heads() const { return {}; }
  // Whether heads for other classes start from the rows in a file, repeated or cut, instead of new values.
  virtual bool repeats_class_rows() const { return false; }
  // If a file has more groups or more queries per group, the first ones are taken.
  virtual QueryTables query_tables() const { return {}; }

 protected:
  // Registers a tensor. The Var is allocated here (f32) and filled by initialize().
  Var param(const std::string& name, const Shape& shape, Initializer init, bool trainable = true,
            ParameterResize resize = nullptr);
  Var buffer(const std::string& name, const Shape& shape, double value);
  // Registers another name for an existing tensor.
  void alias(const std::string& name, Var var);
  template <class M>
  Child<M> child(const std::string& name, std::shared_ptr<M> module) {
    children_.emplace_back(name, module);
    return module;
  }
  template <class M, class... A>
  Child<M> make_child(const std::string& name, A&&... args) {
    return child(name, std::make_shared<M>(std::forward<A>(args)...));
  }
  // Runs after the parameters and children are initialised: for inits that span several modules.
  virtual void after_initialize(uint64_t seed, const std::string& prefix);

 private:
  struct Entry {
    std::string name;
    Var var;
    Initializer init;
    bool is_buffer;
    double value;  // buffers: initial value
    bool is_alias;
    ParameterResize resize = nullptr;
  };
  void collect(const std::string& prefix, std::vector<NamedTensor>& out) const;
  // Draws one parameter's first values from its own key.
  struct InitTask {
    Var var;
    Tensor values;
    Initializer init;
    uint64_t key;
    void draw();
  };
  void collect_init(uint64_t seed, const std::string& prefix, std::vector<InitTask>& tasks) const;
  void finish_initialize(uint64_t seed, const std::string& prefix);
  void mark_recompute(const std::string& name, NamePatterns& patterns);

  std::vector<Entry> entries_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = false;
  bool recompute_ = false;
};

}  // namespace saccade
