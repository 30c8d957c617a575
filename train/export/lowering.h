// How an op becomes ONNX operators: a function with the op's name that reads a Lowering, `l`, and gives it
// the name of the result:
//
//   SACCADE_LOWERING(sigmoid) { l.result(l.node("Sigmoid", {l.input(0)})); }
//
// Only ops that depend on the images are lowered; whatever follows from weights and sizes alone is computed
// in advance, as a constant.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/kernels/activation/activations.h"
#include "core/runtime/registry.h"
#include "train/export/graph.h"
#include "train/export/trace.h"

namespace saccade {

// The names of a trace's values in the graph. A feature map may be there as [N, H, W, C], as ops see it, as
// [N, C, H, W], as ONNX's convolutions expect it, or both: each form is made when it is first needed.
class LoweredValues {
 public:
  LoweredValues(const Trace& trace, OnnxGraph& graph,
                std::unordered_map<const Storage*, std::string> parameters)
      : trace_(trace), graph_(graph), parameters_(std::move(parameters)), names_(trace.values.size()) {}

  const TracedValue& at(int id) const { return trace_.values[static_cast<size_t>(id)]; }
  bool has_channels_first(int id) const { return !names_[static_cast<size_t>(id)].channels_first.empty(); }
  // hint: the name of a constant that is not a parameter
  std::string name(int id, bool whole_batch = true, std::string_view hint = "constant");
  std::string channels_first(int id);
  void set(int id, std::string name) { names_[static_cast<size_t>(id)].plain = std::move(name); }
  void set_channels_first(int id, std::string name) {
    names_[static_cast<size_t>(id)].channels_first = std::move(name);
  }
  // Returns a constant's value; if its axes grow with the batch, the value for one image. Throws Error if
  // that is more than one row.
  Tensor constant(int id) const;
  // Returns a shape as the graph computes it: a constant, or derived from the number of images.
  std::string shape(const TracedValue& value);
  // Repeats `one` [1, ..] for every image: [N, ..]
  std::string for_every_image(const Tensor& one, std::string_view hint);
  bool free_batch() const { return !at(0).grows.empty() && at(0).grows[0]; }
  OnnxGraph& graph() { return graph_; }

 private:
  struct Names {
    std::string plain, channels_first;
  };
  const Trace& trace_;
  OnnxGraph& graph_;
  std::unordered_map<const Storage*, std::string> parameters_;
  std::vector<Names> names_;
  std::string batch();  // the number of images as a tensor [1], if the batch is free
  std::string batch_;
};

// The lowering of one op.
class Lowering {
 public:
  Lowering(const TracedOp& op, LoweredValues& values) : op_(op), values_(values) {}

  const std::string& op() const { return op_.name; }
  size_t inputs() const { return op_.inputs.size(); }
  bool has(size_t i) const { return i < op_.inputs.size() && op_.inputs[i] >= 0; }
  const TracedValue& traced(size_t i) const { return values_.at(op_.inputs[i]); }
  const Shape& shape(size_t i) const { return traced(i).shape; }
  const TracedValue& result_traced() const { return values_.at(op_.output); }
  const Shape& result_shape() const { return result_traced().shape; }
  std::string input(size_t i, std::string_view hint = "constant") {
    return values_.name(op_.inputs[i], true, hint);
  }
  // Like input, but a constant that is the same for all images may come without its copies, for operators
  // that broadcast.
  std::string broadcast_input(size_t i) { return values_.name(op_.inputs[i], false); }
  // Returns a map [N, H, W, C] as [N, C, H, W].
  std::string channels_first(size_t i) { return values_.channels_first(op_.inputs[i]); }
  bool has_channels_first(size_t i) const { return has(i) && values_.has_channels_first(op_.inputs[i]); }
  // An input or a tensor attribute that must be constant; throws Error if it is not.
  Tensor constant(size_t i) const { return constant_value(op_.inputs[i]); }
  Tensor constant(const char* attribute) const { return constant_value(tensor_id(attribute)); }
  bool has_tensor(const char* attribute) const { return tensor_id(attribute) >= 0; }
  std::string tensor(const char* attribute) { return values_.name(tensor_id(attribute)); }
  bool depends_on_images(const char* attribute) const { return values_.at(tensor_id(attribute)).depends; }

  int64_t integer(const char* attribute) const { return get<int64_t>(attribute); }
  double number(const char* attribute) const { return get<double>(attribute); }
  const std::vector<int64_t>& integers(const char* attribute) const {
    return get<std::vector<int64_t>>(attribute);
  }

  OnnxGraph& graph() { return values_.graph(); }
  std::string node(std::string_view type, const std::vector<std::string>& in,
                   const OnnxAttributes& attributes = {}) {
    return graph().node(type, in, attributes);
  }
  // Sizes follow ONNX: 0 keeps the input's size, -1 takes what is left.
  std::string reshape(const std::string& x, const std::vector<int64_t>& sizes) {
    return node("Reshape", {x, graph().ints(sizes)});
  }
  std::string transpose(const std::string& x, const std::vector<int64_t>& axes) {
    return node("Transpose", {x}, {{"perm", axes}});
  }
  std::string slice(const std::string& x, int64_t axis, int64_t begin, int64_t end) {
    return node("Slice", {x, graph().ints({begin}, "starts"), graph().ints({end}, "ends"),
                          graph().ints({axis}, "axes")});
  }
  std::string activate(Activation activation, const std::string& x);
  // Repeats `one` [1, ..] for every image: [N, ..]
  std::string for_every_image(const Tensor& one, std::string_view hint) {
    return values_.for_every_image(one, hint);
  }
  // Returns a shape of this op as the graph computes it.
  std::string shape_of(const TracedValue& value) { return values_.shape(value); }

  void result(std::string name) { values_.set(op_.output, std::move(name)); }
  void result_channels_first(std::string name) { values_.set_channels_first(op_.output, std::move(name)); }
  [[noreturn]] void refuse(std::string_view why) const { fail("[export] op [{}]: {}", op_.name, why); }

 private:
  int tensor_id(std::string_view attribute) const {
    for (const auto& [name, id] : op_.tensors)
      if (name == attribute) return id;
    refuse(fmt::format("has no tensor \"{}\"", attribute));
  }
  Tensor constant_value(int id) const {
    if (values_.at(id).depends) refuse("a weight or a table depends on the images");
    return values_.constant(id);
  }
  template <class T>
  const T& get(const char* attribute) const {
    const T* value = op_.attributes.find<T>(attribute);
    if (!value) refuse(fmt::format("has no attribute \"{}\"", attribute));
    return *value;
  }

  const TracedOp& op_;
  LoweredValues& values_;
};

struct OpLowering {
  std::string name;  // of the op
  std::string file;
  void (*lower)(Lowering& lowering);
  bool f32 = false;  // its nodes lose too much in half precision: statistics, softmax, coordinates
};

inline Registry<OpLowering>& op_lowerings() { return registry_of<OpLowering>("op"); }

// Begins and registers the function of an op, void lower_op(Lowering& l): SACCADE_LOWERING(op[, f32])
#define SACCADE_LOWERING(op, ...)                                                            \
  void lower_##op(Lowering& l);                                                              \
  [[maybe_unused]] static const bool lower_##op##_registered =                               \
      ::saccade::op_lowerings().add({#op, __FILE__, lower_##op __VA_OPT__(, ) __VA_ARGS__}); \
  void lower_##op(Lowering& l)

}  // namespace saccade
