// Rows of conv2d, conv2d_levels, conv_transpose2d, max_pool2d, avg_pool2d and adaptive_avg_pool2d.
#include <cmath>

#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

Sample conv_case(Rng& rng, const char* label, const Shape& x, int64_t out, int64_t window,
                 const Conv2dOptions& o, bool bias = true, Activation act = Activation::kNone) {
  int64_t in_group = x[3] / o.groups, taps = in_group * window * window;
  auto reference = [=](const Tensors& in) {
    auto size = [&](int64_t n) { return (n + 2 * o.padding - o.dilation * (window - 1) - 1) / o.stride + 1; };
    return build({x[0], size(x[1]), size(x[2]), out}, [&](const std::vector<int64_t>& i) {
      double z = in[2].defined() ? at(in[2], {i[3]}) : 0;
      int64_t group = i[3] / (out / o.groups);
      for (int64_t r = 0; r < window; ++r) {
        for (int64_t s = 0; s < window; ++s) {
          int64_t h = i[1] * o.stride - o.padding + r * o.dilation,
                  v = i[2] * o.stride - o.padding + s * o.dilation;
          if (h < 0 || h >= x[1] || v < 0 || v >= x[2]) continue;
          for (int64_t c = 0; c < in_group; ++c)
            z += at(in[0], {i[0], h, v, group * in_group + c}) * at(in[1], {i[3], c, r, s});
        }
      }
      return activation_of(act, z);
    });
  };
  Tensor b = bias ? uniform(rng, {out}) : Tensor();
  if (act == Activation::kRelu) {  // a large bias of either sign keeps every sum away from the kink
    b = build({out}, [&](const std::vector<int64_t>& i) {
      return (i[0] % 2 == 0 ? 1.0 : -1.0) * (static_cast<double>(taps) + 0.5);
    });
  }
  return {label,
          {uniform(rng, x), uniform(rng, {out, in_group, window, window}), b},
          [o, act](const Vars& v) { return conv2d(v[0], v[1], v[2], o, act); },
          reference};
}

const Register kConv2d(Row{
    "conv2d",
    Bf16::kCompute,
    {.why =
         "f32: sums of up to 300 products in any order; bf16: one rounding (2^-9) of each factor and of the "
         "result, cancellation inside the sum"},
    [](Rng& rng) {
      std::vector<Sample> samples{
          conv_case(rng, "3x3", {2, 5, 4, 3}, 4, 3, {.padding = 1}),
          conv_case(rng, "3x3 stride 2, no bias", {1, 6, 7, 4}, 5, 3, {.stride = 2, .padding = 1}, false),
          conv_case(rng, "7x7 stem", {1, 9, 8, 3}, 4, 7, {.stride = 2, .padding = 3}, false),
          conv_case(rng, "1x1", {2, 3, 4, 5}, 7, 1, {}),
          conv_case(rng, "1x1 stride 2", {1, 5, 4, 3}, 2, 1, {.stride = 2}, false),
          conv_case(rng, "dilated", {1, 7, 6, 2}, 3, 3, {.padding = 2, .dilation = 2}),
          conv_case(rng, "no padding", {1, 4, 5, 2}, 3, 2, {}),
          conv_case(rng, "two groups", {1, 4, 4, 6}, 4, 3, {.padding = 1, .groups = 2}),
          conv_case(rng, "depthwise", {2, 4, 3, 5}, 5, 3, {.padding = 1, .groups = 5}),
          conv_case(rng, "depthwise, 19 channels, wide kernel", {2, 3, 4, 19}, 19, 5,
                    {.padding = 2, .groups = 19}),
          conv_case(rng, "depthwise, dilated", {1, 6, 5, 4}, 4, 3,
                    {.stride = 2, .padding = 1, .dilation = 2, .groups = 4}),
          conv_case(rng, "depthwise, 16 channels", {1, 4, 3, 16}, 16, 3,
                    {.stride = 2, .padding = 1, .groups = 16}),
          conv_case(rng, "depthwise 5x5, 8 channels", {1, 3, 6, 8}, 8, 5, {.padding = 2, .groups = 8}),
          conv_case(rng, "depthwise 7x7, 24 channels, odd size", {1, 3, 7, 24}, 24, 7,
                    {.padding = 3, .groups = 24}, false),
          conv_case(rng, "depthwise 9x9 stride 8", {1, 11, 9, 8}, 8, 9,
                    {.stride = 8, .padding = 4, .groups = 8}),
          conv_case(rng, "depthwise 9x9, no padding", {1, 10, 9, 8}, 8, 9, {.groups = 8}),
          conv_case(rng, "depthwise 4x4 stride 4, 136 channels", {1, 4, 8, 136}, 136, 4,
                    {.stride = 4, .groups = 136}, false),
          conv_case(rng, "depthwise relu", {1, 3, 5, 8}, 8, 3, {.padding = 1, .groups = 8}, true,
                    Activation::kRelu),
          conv_case(rng, "four groups of two, stride 2, dilated", {1, 7, 6, 8}, 8, 3,
                    {.stride = 2, .padding = 2, .dilation = 2, .groups = 4}),
          conv_case(rng, "8 to 16 channels relu", {2, 5, 3, 8}, 16, 3, {.padding = 1}, true,
                    Activation::kRelu),
          conv_case(rng, "3x3 stride 2 of an even size", {1, 6, 4, 8}, 8, 3, {.stride = 2}),
          conv_case(rng, "relu", {1, 4, 4, 3}, 6, 3, {.padding = 1}, true, Activation::kRelu),
          conv_case(rng, "1x1 relu", {2, 2, 3, 4}, 6, 1, {}, true, Activation::kRelu),
          conv_case(rng, "gelu", {1, 3, 3, 2}, 4, 3, {.padding = 1}, true, Activation::kGelu),
          conv_case(rng, "31 to 33 channels", {1, 2, 3, 31}, 33, 3, {.padding = 1}),
          conv_case(rng, "no images", {0, 4, 4, 3}, 2, 3, {.padding = 1}),
      };
      for (auto [act, name] : activations())
        samples.push_back(conv_case(rng, name, {1, 3, 4, 2}, 3, 3, {.padding = 1}, true, act));
      return samples;
    },
    {{"channels differ",
      [] {
        conv2d(Var(Tensor::zeros({1, 4, 4, 3})), Var(Tensor::zeros({2, 4, 3, 3})), Var());
      },
      R"(\[conv2d\] got x \[1, 4, 4, 3\] and weight \[2, 4, 3, 3\] with 1 groups)"},
     {"window too large",
      [] {
        conv2d(Var(Tensor::zeros({1, 2, 2, 3})), Var(Tensor::zeros({2, 3, 3, 3})), Var());
      },
      R"(\[conv2d\] x \[1, 2, 2, 3\] with padding 0 is smaller)"},
     {"stride 0",
      [] {
        conv2d(Var(Tensor::zeros({1, 4, 4, 3})), Var(Tensor::zeros({2, 3, 3, 3})), Var(), {.stride = 0});
      },
      R"(\[conv2d\] options, got stride 0)"},
     {"bias",
      [] {
        conv2d(Var(Tensor::zeros({1, 4, 4, 3})), Var(Tensor::zeros({2, 3, 3, 3})), Var(Tensor::zeros({3})));
      },
      R"(\[conv2d\] bias, got shape \[3\], expected \[2\])"}},
    "oneDNN splits the sum of a weight gradient by threads"});

// A conv_case with a residual. The bias, or without one the residual, keeps every sum away from the kink.
Sample residual_case(Rng& rng, const char* label, const Shape& x, int64_t out, int64_t window,
                     const Conv2dOptions& o, bool bias = true) {
  const Sample conv = conv_case(rng, label, x, out, window, o, bias, Activation::kNone);
  Tensors in = conv.inputs;
  const double far = static_cast<double>(x[3] / o.groups * window * window) + 1.5;
  auto away = [far](const std::vector<int64_t>& i) { return i.back() % 2 == 0 ? far : -far; };
  if (bias) in[2] = build({out}, away);
  const Shape y = conv.reference(in).shape();
  in.push_back(bias ? uniform(rng, y) : build(y, away));
  return {label, in, [o](const Vars& v) { return conv2d_add_relu(v[0], v[1], v[2], v[3], o); },
          [reference = conv.reference](const Tensors& t) {
            const Tensor sum = reference({t[0], t[1], t[2]});
            return build(sum.shape(), [&](auto& i) { return std::max(0.0, at(sum, i) + at(t[3], i)); });
          }};
}

const Register kConv2dAddRelu(Row{
    "conv2d_add_relu",
    Bf16::kCompute,
    {.why = "as conv2d, with one more rounding of the sum where it is not fused"},
    [](Rng& rng) {
      return std::vector<Sample>{
          residual_case(rng, "3x3", {2, 4, 3, 8}, 8, 3, {.padding = 1}),
          residual_case(rng, "3x3 stride 2, odd channels", {1, 5, 4, 3}, 5, 3, {.stride = 2, .padding = 1}),
          residual_case(rng, "1x1", {2, 3, 2, 8}, 16, 1, {}),
          residual_case(rng, "1x1 stride 2", {1, 4, 5, 3}, 4, 1, {.stride = 2}),
          residual_case(rng, "no bias", {1, 3, 4, 8}, 8, 3, {.padding = 1}, false),
          residual_case(rng, "1x1, no bias", {1, 3, 2, 4}, 6, 1, {}, false),
          residual_case(rng, "two groups", {1, 4, 3, 6}, 4, 3, {.padding = 1, .groups = 2}),
          residual_case(rng, "depthwise", {1, 3, 4, 8}, 8, 3, {.padding = 1, .groups = 8}),
          residual_case(rng, "no images", {0, 4, 4, 3}, 2, 3, {.padding = 1}),
      };
    },
    {{"residual",
      [] {
        conv2d_add_relu(Var(Tensor::zeros({1, 4, 4, 3})), Var(Tensor::zeros({2, 3, 3, 3})), Var(),
                        Var(Tensor::zeros({1, 4, 4, 2})));
      },
      R"(\[conv2d_add_relu\] residual, got shape \[1, 4, 4, 2\], expected \[1, 2, 2, 2\])"}},
    "oneDNN splits the sum of a weight gradient by threads"});

Sample shift_case(Rng& rng, const char* label, const Shape& x, int64_t out, int64_t window,
                  const Conv2dOptions& o) {
  Sample sample = conv_case(rng, label, x, out, window, o, true, Activation::kRelu);
  sample.inputs.push_back(uniform(rng, {1}));
  sample.fn = [o](const Vars& v) { return conv2d_relu_shift(v[0], v[1], v[2], v[3], o); };
  sample.reference = [conv = sample.reference](const Tensors& t) {
    const Tensor y = conv({t[0], t[1], t[2]});
    return build(y.shape(), [&](auto& i) { return at(y, i) + at(t[3], {0}); });
  };
  return sample;
}

const Register kConv2dReluShift(Row{
    "conv2d_relu_shift",
    Bf16::kCompute,
    {.why = "as conv2d, with one more rounding of the sum where it is not fused"},
    [](Rng& rng) {
      return std::vector<Sample>{
          shift_case(rng, "3x3", {2, 4, 3, 8}, 8, 3, {.padding = 1}),
          shift_case(rng, "3x3 stride 2, odd channels", {1, 5, 4, 3}, 5, 3, {.stride = 2, .padding = 1}),
          shift_case(rng, "1x1", {2, 3, 2, 8}, 16, 1, {}),
          shift_case(rng, "depthwise", {1, 3, 4, 8}, 8, 5, {.padding = 2, .groups = 8}),
          shift_case(rng, "no images", {0, 4, 4, 3}, 2, 3, {.padding = 1}),
      };
    },
    {{"shift",
      [] {
        conv2d_relu_shift(Var(Tensor::zeros({1, 4, 4, 3})), Var(Tensor::zeros({2, 3, 3, 3})), Var(),
                          Var(Tensor::zeros({2})));
      },
      R"(\[conv2d_relu_shift\] shift, got shape \[2\], expected \[1\])"}},
    "oneDNN splits the sum of a weight gradient by threads"});

// The maps of two levels one after the other, each made like that of conv_case.
Sample levels_case(Rng& rng, const char* label, int64_t images, int64_t in, int64_t out, int64_t window,
                   bool bias = true, Activation act = Activation::kNone) {
  const FeatureLevels levels{{3, 4}, {2, 1}};
  const Conv2dOptions same{.padding = window / 2};
  Sample first = conv_case(rng, label, {images, 3, 4, in}, out, window, same, bias, act);
  const Sample second = conv_case(rng, label, {images, 2, 1, in}, out, window, same, bias, act);
  const int64_t head = images * 12, tail = images * 2;
  const auto joined = [=](const Tensor& a, const Tensor& b) {
    return build({head + tail, a.dim(-1)}, [&](const std::vector<int64_t>& i) {
      return i[0] < head ? at(a.reshape({head, a.dim(-1)}), {i[0], i[1]})
                         : at(b.reshape({tail, a.dim(-1)}), {i[0] - head, i[1]});
    });
  };
  first.inputs[0] = joined(first.inputs[0], second.inputs[0]);
  auto reference = [=, a = first.reference, b = second.reference](const Tensors& t) {
    const Tensor &x = t[0], top = x.slice(0, 0, head), rest = x.slice(0, head, head + tail);
    return joined(a({top.reshape({images, 3, 4, in}), t[1], t[2]}),
                  b({rest.reshape({images, 2, 1, in}), t[1], t[2]}));
  };
  return {label, first.inputs,
          [levels, act](const Vars& v) { return conv2d_levels(v[0], levels, v[1], v[2], act); }, reference};
}

const Register kConv2dLevels(Row{
    "conv2d_levels",
    Bf16::kCompute,
    {.why = "as conv2d; the gradient of the weights is rounded for each level where they are added up"},
    [](Rng& rng) {
      return std::vector<Sample>{
          levels_case(rng, "3x3", 2, 3, 4, 3),
          levels_case(rng, "3x3, 16 channels, no bias", 1, 16, 16, 3, false),
          levels_case(rng, "3x3 relu", 1, 8, 5, 3, true, Activation::kRelu),
          levels_case(rng, "5x5 gelu", 1, 2, 3, 5, true, Activation::kGelu),
          levels_case(rng, "1x1", 2, 3, 5, 1),
          levels_case(rng, "no images", 0, 3, 2, 3),
      };
    },
    {{"no levels",
      [] {
        conv2d_levels(Var(Tensor::zeros({4, 3})), {}, Var(Tensor::zeros({2, 3, 3, 3})), Var());
      },
      R"(\[conv2d_levels\] x, got shape \[4, 3\], expected \[N \* cells, C\] of levels of 0 cells)"},
     {"cells",
      [] {
        conv2d_levels(Var(Tensor::zeros({4, 3})), {{1, 3}}, Var(Tensor::zeros({2, 3, 3, 3})), Var());
      },
      R"(\[conv2d_levels\] x, got shape \[4, 3\], expected \[N \* cells, C\] of levels of 3 cells)"},
     {"even window",
      [] {
        conv2d_levels(Var(Tensor::zeros({3, 3})), {{1, 3}}, Var(Tensor::zeros({2, 3, 2, 2})), Var());
      },
      R"(\[conv2d_levels\] weight, got shape \[2, 3, 2, 2\], expected \[O, 3, R, R\] with an odd R)"},
     {"bias",
      [] {
        conv2d_levels(Var(Tensor::zeros({3, 3})), {{1, 3}}, Var(Tensor::zeros({2, 3, 3, 3})),
                      Var(Tensor::zeros({3})));
      },
      R"(\[conv2d_levels\] bias, got shape \[3\], expected \[2\])"}},
    "oneDNN splits the sum of a weight gradient by threads"});

Sample transposed_case(Rng& rng, const char* label, const Shape& x, int64_t out, int64_t stride,
                       bool bias = true) {
  auto reference = [=](const Tensors& in) {
    return build({x[0], x[1] * stride, x[2] * stride, out}, [&](const std::vector<int64_t>& i) {
      double z = in[2].defined() ? at(in[2], {i[3]}) : 0;
      for (int64_t c = 0; c < x[3]; ++c)
        z += at(in[0], {i[0], i[1] / stride, i[2] / stride, c}) *
             at(in[1], {c, i[3], i[1] % stride, i[2] % stride});
      return z;
    });
  };
  return {label,
          {uniform(rng, x), uniform(rng, {x[3], out, stride, stride}), bias ? uniform(rng, {out}) : Tensor()},
          [stride](const Vars& v) { return conv_transpose2d(v[0], v[1], v[2], stride); },
          reference};
}

const Register kConvTranspose2d(Row{
    "conv_transpose2d",
    Bf16::kCompute,
    {.why =
         "f32: sums of few products in any order; bf16: one rounding (2^-9) of each factor and of the result"},
    [](Rng& rng) {
      return std::vector<Sample>{
          transposed_case(rng, "2x2", {2, 3, 4, 5}, 3, 2),
          transposed_case(rng, "no bias, 16 channels", {1, 2, 3, 16}, 8, 2, false),
          transposed_case(rng, "3x3", {1, 2, 2, 3}, 2, 3),
          transposed_case(rng, "1x1", {1, 3, 2, 4}, 3, 1),
          transposed_case(rng, "no images", {0, 2, 2, 3}, 2, 2),
      };
    },
    {{"windows that overlap",
      [] {
        conv_transpose2d(Var(Tensor::zeros({1, 4, 4, 3})), Var(Tensor::zeros({3, 2, 4, 4})), Var(), 2);
      },
      R"(\[conv_transpose2d\] stride 2 with weight \[3, 2, 4, 4\], expected windows as large as the stride)"},
     {"channels",
      [] {
        conv_transpose2d(Var(Tensor::zeros({1, 4, 4, 3})), Var(Tensor::zeros({2, 3, 2, 2})), Var(), 2);
      },
      R"(\[conv_transpose2d\] got x \[1, 4, 4, 3\] and weight \[2, 3, 2, 2\])"}},
    "oneDNN splits the sum of a weight gradient by threads"});

Sample pool_case(Rng& rng, const char* label, const Shape& x, int64_t kernel, int64_t stride,
                 int64_t padding) {
  auto reference = [=](const Tensors& in) {
    auto size = [&](int64_t n) { return (n + 2 * padding - kernel) / stride + 1; };
    return build({x[0], size(x[1]), size(x[2]), x[3]}, [&](const std::vector<int64_t>& i) {
      double best = -INFINITY;
      for (int64_t r = 0; r < kernel; ++r) {
        for (int64_t s = 0; s < kernel; ++s) {
          int64_t h = i[1] * stride - padding + r, w = i[2] * stride - padding + s;
          if (h >= 0 && h < x[1] && w >= 0 && w < x[2]) best = std::max(best, at(in[0], {i[0], h, w, i[3]}));
        }
      }
      return best;
    });
  };
  return {label,
          {distinct(rng, x)},
          [=](const Vars& v) { return max_pool2d(v[0], kernel, stride, padding); },
          reference};
}

const Register kMaxPool2d(Row{
    "max_pool2d",
    Bf16::kExact,
    {.why = "values are copied; a gradient is a sum of at most 9 values, in bf16 rounded once"},
    [](Rng& rng) {
      return std::vector<Sample>{
          pool_case(rng, "3x3 stride 2", {2, 7, 6, 3}, 3, 2, 1),
          pool_case(rng, "2x2", {1, 4, 4, 5}, 2, 2, 0),
          pool_case(rng, "overlapping", {1, 5, 4, 2}, 3, 1, 1),
          pool_case(rng, "gaps", {1, 7, 7, 2}, 2, 3, 0),
          pool_case(rng, "16 channels", {1, 5, 4, 16}, 3, 2, 1),
          pool_case(rng, "35 channels", {1, 3, 2, 35}, 3, 2, 1),
          pool_case(rng, "largest kernel", {1, 16, 17, 1}, 16, 1, 0),
          pool_case(rng, "no images", {0, 4, 4, 2}, 2, 2, 0),
      };
    },
    {{"padding",
      [] {
        max_pool2d(Var(Tensor::zeros({1, 4, 4, 1})), 3, 2, 2);
      },
      R"(\[max_pool2d\] got kernel 3, stride 2, padding 2)"},
     {"too small",
      [] {
        max_pool2d(Var(Tensor::zeros({1, 2, 4, 1})), 3, 2, 0);
      },
      R"(\[max_pool2d\] x \[1, 2, 4, 1\] with padding 0 is smaller)"}}});

Sample average_case(Rng& rng, const char* label, const Shape& x, int64_t window) {
  auto reference = [=](const Tensors& in) {
    auto size = [&](int64_t n) { return (n + window - 1) / window; };
    return build({x[0], size(x[1]), size(x[2]), x[3]}, [&](const std::vector<int64_t>& i) {
      double sum = 0, cells = 0;
      for (int64_t h = i[1] * window; h < std::min((i[1] + 1) * window, x[1]); ++h)
        for (int64_t w = i[2] * window; w < std::min((i[2] + 1) * window, x[2]); ++w, ++cells)
          sum += at(in[0], {i[0], h, w, i[3]});
      return sum / cells;
    });
  };
  return {label, {uniform(rng, x)}, [=](const Vars& v) { return avg_pool2d(v[0], window); }, reference};
}

const Register kAvgPool2d(Row{"avg_pool2d",
                              Bf16::kInputs,
                              {.why = "sums of few values, in bf16 rounded once"},
                              [](Rng& rng) {
                                return std::vector<Sample>{
                                    average_case(rng, "2x2", {2, 6, 4, 3}, 2),
                                    average_case(rng, "odd sizes", {1, 5, 7, 9}, 2),
                                    average_case(rng, "one row", {1, 1, 4, 16}, 2),
                                    average_case(rng, "3x3", {1, 7, 5, 2}, 3),
                                    average_case(rng, "larger than x", {1, 2, 3, 8}, 4),
                                    average_case(rng, "no images", {0, 4, 4, 2}, 2),
                                };
                              },
                              {{"window",
                                [] {
                                  avg_pool2d(Var(Tensor::zeros({1, 4, 4, 1})), 0);
                                },
                                R"(\[avg_pool2d\] got a window of 0)"}}});

Sample adaptive_case(Rng& rng, const char* label, const Shape& x, int64_t height, int64_t width) {
  auto reference = [=](const Tensors& in) {
    // Output i covers the part of the axis from i / after to (i + 1) / after, with the cells that it touches.
    auto touches = [](int64_t i, int64_t cell, int64_t before, int64_t after) {
      return (cell + 1) * after > i * before && cell * after < (i + 1) * before;
    };
    return build({x[0], height, width, x[3]}, [&](const std::vector<int64_t>& i) {
      double sum = 0, cells = 0;
      for (int64_t h = 0; h < x[1]; ++h)
        for (int64_t w = 0; w < x[2]; ++w)
          if (touches(i[1], h, x[1], height) && touches(i[2], w, x[2], width))
            sum += at(in[0], {i[0], h, w, i[3]}), ++cells;
      return sum / cells;
    });
  };
  return {label,
          {uniform(rng, x)},
          [=](const Vars& v) { return adaptive_avg_pool2d(v[0], height, width); },
          reference};
}

const Register kAdaptiveAvgPool2d(Row{"adaptive_avg_pool2d",
                                      Bf16::kInputs,
                                      {.why = "sums of few values, in bf16 rounded once"},
                                      [](Rng& rng) {
                                        return std::vector<Sample>{
                                            adaptive_case(rng, "to one cell", {2, 5, 4, 3}, 1, 1),
                                            adaptive_case(rng, "equal windows", {1, 4, 6, 9}, 2, 3),
                                            adaptive_case(rng, "windows that overlap", {2, 7, 5, 2}, 3, 2),
                                            adaptive_case(rng, "6 of 16", {1, 16, 11, 8}, 6, 6),
                                            adaptive_case(rng, "to more cells", {1, 3, 2, 17}, 5, 6),
                                            adaptive_case(rng, "to as many", {1, 3, 2, 4}, 3, 2),
                                            adaptive_case(rng, "no images", {0, 4, 4, 2}, 2, 2),
                                        };
                                      },
                                      {{"no cells",
                                        [] {
                                          adaptive_avg_pool2d(Var(Tensor::zeros({1, 4, 4, 1})), 0, 2);
                                        },
                                        R"(\[adaptive_avg_pool2d\] got a size of 0 x 2)"},
                                       {"a map without cells",
                                        [] {
                                          adaptive_avg_pool2d(Var(Tensor::zeros({1, 0, 4, 1})), 1, 1);
                                        },
                                        R"(\[adaptive_avg_pool2d\] x, got \[1, 0, 4, 1\])"}}});

}  // namespace
}  // namespace saccade::optable
