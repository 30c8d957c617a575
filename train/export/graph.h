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

inline constexpr int64_t kOnnxIrVersion = 8, kOnnxOpset = 16;  // what everything published since 2022 reads
// Instead of infinities, which half precision and some compilers turn into NaN: a sigmoid of it is 1,
// a softmax of minus it 0.
inline constexpr float kOnnxLarge = 1e4f;

struct OnnxAttribute {
  const char* name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>> value;
};
using OnnxAttributes = std::vector<OnnxAttribute>;

class OnnxGraph {
 public:
  explicit OnnxGraph(std::string name) { graph_.set_name(std::move(name)); }

  // The names of what follows begin with this.
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  // Nodes from now on must be computed in f32, whatever the others are.
  void keep_f32(bool on) { keep_f32_ = on; }

  // A node with one output (or several); returns the (first) output's name, which is the node's;
  // the i-th further one is NAME:i.
  std::string node(std::string_view type, const std::vector<std::string>& inputs,
                   const OnnxAttributes& attributes = {}, int outputs = 1);
  // A constant: in the scope, or with a full name. Equal ones are one initializer, of nodes that keep f32
  // another. Throws NotFinite for NaN; infinities, which mask logits, become kOnnxLarge.
  std::string constant(const Tensor& value, std::string_view hint = "constant", bool full_name = false);
  std::string scalar(double value);  // finite
  std::string ints(const std::vector<int64_t>& values, std::string_view hint = "shape");
  // Sizes: one name for an axis whose size is free, else numbers.
  struct Axis {
    int64_t size = 0;
    std::string name = {};
  };
  void input(const std::string& name, DType dtype, const std::vector<Axis>& shape);
  // Calls `from` by this name and makes it an output.
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
  // By whether they are of nodes that stay in f32 (converters to f16 take one side of an initializer that
  // both read), and by checksum: their indices.
  std::multimap<std::pair<bool, uint64_t>, int> initializers_;
};

}  // namespace saccade
