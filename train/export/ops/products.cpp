// Matrix products, convolutions and pooling.
#include "train/export/lowering.h"

namespace saccade {
namespace {

using Sizes = std::vector<int64_t>;

std::string conv_node(Lowering& l) {
  const Shape& w = l.shape(1);
  std::vector<std::string> in{l.channels_first(0), l.input(1, "weight")};
  if (l.has(2)) in.push_back(l.input(2, "bias"));
  const int64_t stride = l.integer("stride"), padding = l.integer("padding"),
                dilation = l.integer("dilation");
  return l.node("Conv", in,
                {{"kernel_shape", Sizes{w[2], w[3]}},
                 {"strides", Sizes{stride, stride}},
                 {"pads", Sizes{padding, padding, padding, padding}},
                 {"dilations", Sizes{dilation, dilation}},
                 {"group", l.integer("groups")}});
}

SACCADE_LOWERING(conv2d) {
  const std::string y = conv_node(l);
  l.result_channels_first(l.activate(static_cast<Activation>(l.integer("activation")), y));
}

SACCADE_LOWERING(conv2d_add_relu) {
  const std::string y = conv_node(l);
  l.result_channels_first(l.node("Relu", {l.node("Add", {y, l.channels_first(3)})}));
}

SACCADE_LOWERING(conv2d_relu_shift) {
  const std::string y = conv_node(l);
  l.result_channels_first(l.node("Add", {l.node("Relu", {y}), l.input(3, "shift")}));
}

// y = act(x weight^T + bias)
SACCADE_LOWERING(linear) {
  const auto activation = static_cast<Activation>(l.integer("activation"));
  if (l.shape(0).rank() == 2) {
    std::vector<std::string> in{l.input(0), l.input(1, "weight")};
    if (l.has(2)) in.push_back(l.input(2, "bias"));
    return l.result(l.activate(activation, l.node("Gemm", in, {{"transB", 1}})));
  }
  std::string y =
      l.node("MatMul",
             {l.input(0), l.graph().constant(l.constant(size_t{1}).transpose(0, 1).contiguous(), "weight")});
  if (l.has(2)) y = l.node("Add", {y, l.input(2, "bias")});
  l.result(l.activate(activation, y));
}

SACCADE_LOWERING(matmul) { l.result(l.node("MatMul", {l.input(0), l.input(1)})); }

SACCADE_LOWERING(max_pool2d) {
  const int64_t kernel = l.integer("kernel"), stride = l.integer("stride"), padding = l.integer("padding");
  l.result_channels_first(l.node("MaxPool", {l.channels_first(0)},
                                 {{"kernel_shape", Sizes{kernel, kernel}},
                                  {"strides", Sizes{stride, stride}},
                                  {"pads", Sizes{padding, padding, padding, padding}}}));
}

SACCADE_LOWERING(avg_pool2d) {
  const int64_t window = l.integer("window");
  l.result_channels_first(l.node("AveragePool", {l.channels_first(0)},
                                 {{"kernel_shape", Sizes{window, window}},
                                  {"strides", Sizes{window, window}},
                                  {"ceil_mode", 1},
                                  {"count_include_pad", 0}}));
}

// The share of each of `before` cells in each of `after` cells: [after, before].
Tensor averages(int64_t before, int64_t after) {
  Tensor t = Tensor::zeros({after, before});
  for (int64_t i = 0; i < after; ++i) {
    const int64_t first = i * before / after, last = ((i + 1) * before + after - 1) / after;
    for (int64_t j = first; j < last; ++j)
      t.data<float>()[i * before + j] = 1 / static_cast<float>(last - first);
  }
  return t;
}

// ONNX pools only to one cell or by equal windows; two matrix products are exact for all sizes.
SACCADE_LOWERING(adaptive_avg_pool2d) {
  const Tensor rows = averages(l.shape(0)[1], l.integer("height")),
               columns = averages(l.shape(0)[2], l.integer("width")).transpose(0, 1).contiguous();
  const std::string wide = l.node("MatMul", {l.channels_first(0), l.graph().constant(columns, "averages")});
  l.result_channels_first(l.node("MatMul", {l.graph().constant(rows, "averages"), wide}));
}

}  // namespace
}  // namespace saccade
