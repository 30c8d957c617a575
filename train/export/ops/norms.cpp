// Normalisation and softmax.
#include <cmath>

#include "train/export/lowering.h"

namespace saccade {
namespace {

// Computes x * scale + shift by channel; `first`: x is [N, C, H, W].
std::string scaled_channels(Lowering& l, const Tensor& scale, const Tensor& shift, bool first) {
  auto shaped = [&](const Tensor& t, const char* name) {
    return l.graph().constant(first ? t.reshape({t.numel(), 1, 1}) : t, name);
  };
  const std::string scaled =
      l.node("Mul", {first ? l.channels_first(0) : l.input(0), shaped(scale, "scale")});
  return l.node("Add", {scaled, shaped(shift, "shift")});
}

void set_result(Lowering& l, const std::string& y, bool first) {
  if (first)
    l.result_channels_first(y);
  else
    l.result(y);
}

void scale_channels(Lowering& l, const Tensor& scale, const Tensor& shift) {
  const bool first = l.has_channels_first(0);
  const auto activation = static_cast<Activation>(l.integer("activation"));
  set_result(l, l.activate(activation, scaled_channels(l, scale, shift, first)), first);
}

SACCADE_LOWERING(channel_affine) { scale_channels(l, l.constant("scale"), l.constant("shift")); }

SACCADE_LOWERING(affine_add_relu) {
  const bool first = l.has_channels_first(0);
  const std::string x = scaled_channels(l, l.constant("scale"), l.constant("shift"), first);
  set_result(l, l.node("Relu", {l.node("Add", {x, first ? l.channels_first(1) : l.input(1)})}), first);
}

SACCADE_LOWERING(batch_norm) {
  if (l.integer("training")) l.refuse("the statistics of a batch are only for training");
  const auto mean = l.constant("mean").to_vector<double>(),
             variance = l.constant("variance").to_vector<double>();
  auto scale = l.constant(size_t{1}).to_vector<double>(), shift = l.constant(size_t{2}).to_vector<double>();
  for (size_t c = 0; c < scale.size(); ++c) {
    scale[c] /= std::sqrt(variance[c] + l.number("eps"));
    shift[c] -= mean[c] * scale[c];
  }
  const Shape channels{static_cast<int64_t>(scale.size())};
  scale_channels(l, Tensor::from<double>(channels, scale).to(DType::kF32),
                 Tensor::from<double>(channels, shift).to(DType::kF32));
}

// Written as an instance norm of [N, groups, all numbers of a group]: GroupNormalization was added in opset
// 18, and was wrong until 21.
SACCADE_LOWERING(group_norm, true) {
  const Shape& x = l.shape(0);
  const int64_t groups = l.integer("groups"), channels = x[-1];
  std::string first;  // [N, C, ..]
  if (x.rank() == 4) {
    first = l.channels_first(0);
  } else {
    first = l.transpose(l.reshape(l.input(0), {0, -1, channels}), {0, 2, 1});
  }
  const Shape ones{groups};
  const std::string normal =
      l.node("InstanceNormalization",
             {l.reshape(first, {0, groups, -1}), l.graph().constant(Tensor::full(ones, 1), "ones"),
              l.graph().constant(Tensor::zeros(ones), "zeros")},
             {{"epsilon", static_cast<float>(l.number("eps"))}});
  auto by_channel = [&](size_t i, const Shape& shape) {
    return l.graph().constant(l.constant(i).reshape(shape), i == 1 ? "weight" : "bias");
  };
  const bool map = x.rank() == 4;
  const Shape shape = map ? Shape{channels, 1, 1} : Shape{channels, 1};
  std::string y = l.reshape(
      normal, map ? std::vector<int64_t>{0, channels, x[1], x[2]} : std::vector<int64_t>{0, channels, -1});
  y = l.node("Add", {l.node("Mul", {y, by_channel(1, shape)}), by_channel(2, shape)});
  if (map) return l.result_channels_first(y);
  std::vector<int64_t> sizes{0};
  for (int axis = 1; axis < x.rank(); ++axis) sizes.push_back(x[axis]);
  l.result(l.reshape(l.transpose(y, {0, 2, 1}), sizes));
}

// Written in the operators that runtimes recognise as a layer norm; LayerNormalization was added in opset 17.
SACCADE_LOWERING(layer_norm, true) {
  std::string x = l.input(0);
  if (l.has(3)) x = l.node("Add", {x, l.input(3)});
  auto mean = [&](const std::string& of) {
    return l.node("ReduceMean", {of}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", 1}});
  };
  const std::string centred = l.node("Sub", {x, mean(x)});
  const std::string variance = mean(l.node("Pow", {centred, l.graph().scalar(2)}));
  const std::string deviation =
      l.node("Sqrt", {l.node("Add", {variance, l.graph().scalar(l.number("eps"))})});
  const std::string normal = l.node("Div", {centred, deviation});
  l.result(l.node("Add", {l.node("Mul", {normal, l.input(1)}), l.input(2)}));
}

SACCADE_LOWERING(dropout_norm, true) {
  if (l.number("p") > 0) l.refuse("dropout is only for training");
  lower_layer_norm(l);
}

SACCADE_LOWERING(softmax, true) { l.result(l.node("Softmax", {l.input(0)}, {{"axis", -1}})); }

SACCADE_LOWERING(log_softmax, true) { l.result(l.node("LogSoftmax", {l.input(0)}, {{"axis", -1}})); }

}  // namespace
}  // namespace saccade
