// An ONNX graph under construction.
#pragma once

#include <onnx/onnx.pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor/tensor.h"

namespace saccade {

inline constexpr int64_t kOnnxIrVersion = 8, kOnnxOpset = 16;  // which everything published since 2022 reads
// Replaces infinities, which half precision and some compilers turn into NaN: its sigmoid is 1, and the
// softmax of its negative is 0.
inline constexpr float kOnnxLarge = 1e4f;

struct OnnxAttribute {
  const char* name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>> value;
};
using OnnxAttributes = std::vector<OnnxAttribute>;

class OnnxGraph {
 public:
  explicit OnnxGraph(std::string name) { graph_.set_name(std::move(name)); }

  // The names of the following nodes and constants begin with this.
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  // From now on, nodes must be computed in f32, whatever the others use.
  void keep_f32(bool on) { keep_f32_ = on; }

  // Adds a node with one output (or several). Returns the name of the (first) output, which is also the
  // node's; further outputs are called NAME:i.
  std::string node(std::string_view type, const std::vector<std::string>& inputs,
                   const OnnxAttributes& attributes = {}, int outputs = 1);
  // Adds a constant, named in the scope or with a full name. Equal constants share one initializer, but nodes
  // that keep f32 have their own. Throws NotFinite for NaN; infinities, which mask logits, become kOnnxLarge.
  std::string constant(const Tensor& value, std::string_view hint = "constant", bool full_name = false);
  std::string scalar(double value);  // finite
  std::string ints(const std::vector<int64_t>& values, std::string_view hint = "shape");
  // The size of an axis: a name if it is free, else a number.
  struct Axis {
    int64_t size = 0;
    std::string name = {};
  };
  void input(const std::string& name, DType dtype, const std::vector<Axis>& shape);
  // Makes `from` an output under this name.
  void output(const std::string& name, const std::string& from, DType dtype, const std::vector<Axis>& shape);

  const onnx::GraphProto& proto() const { return graph_; }
  onnx::GraphProto take() { return std::move(graph_); }
  const std::vector<std::string>& f32_nodes() const { return f32_nodes_; }

 private:
  std::string unique(std::string full);
  std::string scoped(std::string_view name) const;

  onnx::GraphProto graph_;
  std::string scope_;
  bool keep_f32_ = false;
  std::vector<std::string> f32_nodes_;
  std::map<std::string, int> names_;
  // The indices of initializers, by whether their nodes stay in f32 (converters to f16 handle an initializer
  // that both kinds read in one way only) and by checksum.
  std::multimap<std::pair<bool, uint64_t>, int> initializers_;
};

}  // namespace saccade
