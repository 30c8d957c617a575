#include "train/export/graph.h"

#include <algorithm>
#include <cmath>

#include "core/files/checksum.h"
#include "core/tensor/error.h"
#include "models/not_finite.h"

namespace saccade {
namespace {

int onnx_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return onnx::TensorProto::FLOAT;
    case DType::kI64:
      return onnx::TensorProto::INT64;
    case DType::kU8:
      return onnx::TensorProto::UINT8;
    case DType::kBool:
      return onnx::TensorProto::BOOL;
    default:
      fail("[export] tensors of dtype {} cannot be exported, expected f32", name_of(dtype));
  }
}

Tensor without_infinities(const Tensor& t) {
  if (t.dtype() != DType::kF32) return t;
  const float* p = t.data<float>();
  if (std::all_of(p, p + t.numel(), [](float x) { return std::isfinite(x); })) return t;
  Tensor finite = t.clone();
  float* q = finite.data<float>();
  for (int64_t i = 0; i < finite.numel(); ++i) {
    if (std::isnan(q[i])) throw NotFinite(fmt::format("a constant {} holds NaN", t.shape().to_string()));
    q[i] = std::isinf(q[i]) ? std::copysign(kOnnxLarge, q[i]) : q[i];
  }
  return finite;
}

void set_value(onnx::ValueInfoProto& info, const std::string& name, DType dtype,
               const std::vector<OnnxGraph::Axis>& shape) {
  info.set_name(name);
  auto* type = info.mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx_type(dtype));
  auto* dims = type->mutable_shape();
  for (const OnnxGraph::Axis& axis : shape) {
    auto* dim = dims->add_dim();
    if (axis.name.empty())
      dim->set_dim_value(axis.size);
    else
      dim->set_dim_param(axis.name);
  }
}

}  // namespace

std::string OnnxGraph::unique(std::string full) {
  std::string name = full;
  while (names_.contains(name)) name = fmt::format("{}_{}", full, names_[full]++);
  names_.emplace(name, 1);
  return name;
}

std::string OnnxGraph::scoped(std::string_view name) const {
  return scope_.empty() ? std::string(name) : fmt::format("{}/{}", scope_, name);
}

std::string OnnxGraph::node(std::string_view type, const std::vector<std::string>& inputs,
                            const OnnxAttributes& attributes, int outputs) {
  std::string name = unique(scoped(type));
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(std::string(type));
  node.set_name(name);
  for (const std::string& in : inputs) node.add_input(in);
  node.add_output(name);
  for (int i = 1; i < outputs; ++i) node.add_output(fmt::format("{}:{}", name, i));
  for (const auto& [key, value] : attributes) {
    onnx::AttributeProto& a = *node.add_attribute();
    a.set_name(key);
    if (const auto* i = std::get_if<int64_t>(&value)) {
      a.set_type(onnx::AttributeProto::INT);
      a.set_i(*i);
    } else if (const auto* f = std::get_if<float>(&value)) {
      a.set_type(onnx::AttributeProto::FLOAT);
      a.set_f(*f);
    } else if (const auto* s = std::get_if<std::string>(&value)) {
      a.set_type(onnx::AttributeProto::STRING);
      a.set_s(*s);
    } else {
      a.set_type(onnx::AttributeProto::INTS);
      for (int64_t x : std::get<std::vector<int64_t>>(value)) a.add_ints(x);
    }
  }
  if (keep_f32_) f32_nodes_.push_back(name);
  return name;
}

std::string OnnxGraph::constant(const Tensor& value, std::string_view hint, bool full_name) {
  const Tensor t = without_infinities(value.contiguous());
  const std::string_view bytes(static_cast<const char*>(t.raw()), t.bytes());
  const std::pair key{keep_f32_, checksum(bytes.data(), bytes.size())};
  const int type = onnx_type(t.dtype());
  for (auto [it, end] = initializers_.equal_range(key); it != end; ++it) {
    const onnx::TensorProto& known = graph_.initializer(it->second);
    if (known.data_type() == type &&
        std::equal(t.shape().begin(), t.shape().end(), known.dims().begin(), known.dims().end()) &&
        known.raw_data() == bytes)
      return known.name();
  }
  onnx::TensorProto& made = *graph_.add_initializer();
  made.set_name(unique(full_name ? std::string(hint) : scoped(hint)));
  made.set_data_type(type);
  for (int64_t d : t.shape()) made.add_dims(d);
  made.set_raw_data(bytes.data(), bytes.size());
  initializers_.emplace(key, graph_.initializer_size() - 1);
  return made.name();
}

std::string OnnxGraph::scalar(double value) {
  const Tensor t = Tensor::scalar(value);
  SACCADE_CHECK(std::isfinite(t.item()), "[export] a number {} is not finite", value);
  return constant(t);
}

std::string OnnxGraph::ints(const std::vector<int64_t>& values, std::string_view hint) {
  return constant(Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values), hint);
}

void OnnxGraph::input(const std::string& name, DType dtype, const std::vector<Axis>& shape) {
  names_.emplace(name, 1);
  set_value(*graph_.add_input(), name, dtype, shape);
}

void OnnxGraph::output(const std::string& name, const std::string& from, DType dtype,
                       const std::vector<Axis>& shape) {
  names_.emplace(name, 1);
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type("Identity");
  node.set_name("output/" + name);
  node.add_input(from);
  node.add_output(name);
  set_value(*graph_.add_output(), name, dtype, shape);
}

}  // namespace saccade
