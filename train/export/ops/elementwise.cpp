// Elementwise ops. Feature maps that are already [N, C, H, W] stay in that order.
#include <limits>

#include "train/export/lowering.h"

namespace saccade {
namespace {

// Whether all inputs of an op on maps exist as [N, C, H, W], or are single numbers.
bool keeps_channels_first(const Lowering& l) {
  bool any = false;
  for (size_t i = 0; i < l.inputs(); ++i) {
    if (!l.has(i)) continue;
    const bool map = l.has_channels_first(i) && l.shape(i) == l.result_shape();
    if (!map && (l.traced(i).depends || l.shape(i).numel() != 1)) return false;
    any |= map;
  }
  return any;
}

// make(names of the inputs) -> name of the result
template <class Make>
void lower_elementwise(Lowering& l, const Make& make) {
  const bool first = keeps_channels_first(l);
  std::vector<std::string> in;
  for (size_t i = 0; i < l.inputs(); ++i)
    in.push_back(first && l.has_channels_first(i) ? l.channels_first(i) : l.broadcast_input(i));
  if (first)
    l.result_channels_first(make(in));
  else
    l.result(make(in));
}

template <class Make>
void lower_one(Lowering& l, const Make& make) {
  lower_elementwise(l, [&](const std::vector<std::string>& in) { return make(in[0]); });
}

// Ops that ONNX has as an operator of another name.
struct SameOperator {
  const char *op, *onnx;
  bool f32 = false;
};
constexpr SameOperator kSame[] = {
    {"add", "Add"},           {"sub", "Sub"},         {"mul", "Mul"},         {"div", "Div"},
    {"maximum", "Max"},       {"minimum", "Min"},     {"relu", "Relu"},       {"tanh", "Tanh"},
    {"exp", "Exp", true},     {"log", "Log", true},   {"sqrt", "Sqrt", true}, {"abs", "Abs"},
    {"identity", "Identity"}, {"sigmoid", "Sigmoid"},
};

void lower_same(Lowering& l) {
  for (const SameOperator& same : kSame)
    if (l.op() == same.op)
      return lower_elementwise(l, [&](const std::vector<std::string>& in) { return l.node(same.onnx, in); });
}
[[maybe_unused]] const bool same_registered = [] {
  for (const SameOperator& same : kSame) op_lowerings().add({same.op, __FILE__, lower_same, same.f32});
  return true;
}();

SACCADE_LOWERING(add_relu) {
  lower_elementwise(l, [&](const auto& in) { return l.node("Relu", {l.node("Add", in)}); });
}

SACCADE_LOWERING(square) {
  lower_one(l, [&](const std::string& x) { return l.node("Mul", {x, x}); });
}

SACCADE_LOWERING(silu) {
  lower_one(l, [&](const std::string& x) { return l.activate(Activation::kSilu, x); });
}

SACCADE_LOWERING(gelu) {
  lower_one(l, [&](const std::string& x) { return l.activate(Activation::kGelu, x); });
}

SACCADE_LOWERING(scale_shift) {
  lower_one(l, [&](std::string x) {
    if (l.number("scale") != 1) x = l.node("Mul", {x, l.graph().scalar(l.number("scale"))});
    return l.number("shift") == 0 ? x : l.node("Add", {x, l.graph().scalar(l.number("shift"))});
  });
}

// Leaves out infinite bounds.
std::string clip(Lowering& l, const std::string& x, double low, double high) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (low == -kNone && high == kNone) return x;
  std::vector<std::string> in{x, low == -kNone ? "" : l.graph().scalar(low)};
  if (high != kNone) in.push_back(l.graph().scalar(high));
  return l.node("Clip", in);
}

SACCADE_LOWERING(clamp) {
  lower_one(l, [&](const std::string& x) { return clip(l, x, l.number("low"), l.number("high")); });
}

SACCADE_LOWERING(inverse_sigmoid, true) {
  const double eps = l.number("eps");
  lower_one(l, [&](const std::string& x) {
    const std::string rest = l.node("Sub", {l.graph().scalar(1), x});
    return l.node("Log", {l.node("Div", {clip(l, x, eps, 1), clip(l, rest, eps, 1)})});
  });
}

// All floating-point values are f32 while a model is traced.
SACCADE_LOWERING(cast) {
  if (l.traced(0).dtype != l.result_traced().dtype)
    l.refuse(fmt::format("from {} to {}", name_of(l.traced(0).dtype), name_of(l.result_traced().dtype)));
  lower_one(l, [](const std::string& x) { return x; });
}

SACCADE_LOWERING(masked_fill) {
  const std::string mask =
      l.depends_on_images("mask") ? l.tensor("mask") : l.graph().constant(l.constant("mask"), "mask");
  l.result(
      l.node("Where", {mask, l.graph().constant(Tensor::scalar(l.number("value")), "value"), l.input(0)}));
}

}  // namespace
}  // namespace saccade
