// Executes the graphs of the stand-in for cuDNN.
#include <algorithm>
#include <bit>
#include <string>

#include "core/tensor/dtype.h"
#include "tests/cuda_emulator/cudnn_graph.h"

namespace saccade::emulator {
namespace {

float rounded_to_tf32(float v) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(v) + 0x1000u) & ~0x1FFFu);
}

struct Run {
  std::map<int64_t, char*> pointers;
  std::map<int64_t, std::vector<float>> virtuals;
  bool tensor_cores;

  float read(const Node& t, int64_t i) {
    if (is_virtual(t)) return virtuals.at(uid(t)).at(static_cast<size_t>(i));
    const char* p = pointers.at(uid(t)) + i * (is_bf16(t) ? 2 : 4);
    check_access(p, is_bf16(t) ? 2 : 4, Access::kRead);
    if (is_bf16(t)) return static_cast<float>(*reinterpret_cast<const bf16*>(p));
    return *reinterpret_cast<const float*>(p);
  }
  float factor(const Node& t, int64_t i) {
    float v = read(t, i);
    return tensor_cores ? rounded_to_tf32(v) : v;
  }
  void write(const Node& t, int64_t i, float v) {
    if (is_virtual(t)) {
      auto [N, C, H, W] = dims(t);
      auto& values = virtuals[uid(t)];
      values.resize(static_cast<size_t>(N * C * H * W));
      values[static_cast<size_t>(i)] = v;
      return;
    }
    char* p = pointers.at(uid(t)) + i * (is_bf16(t) ? 2 : 4);
    check_access(p, is_bf16(t) ? 2 : 4, Access::kWrite);
    if (is_bf16(t))
      *reinterpret_cast<bf16*>(p) = bf16(v);
    else
      *reinterpret_cast<float*>(p) = v;
  }

  // Returns all elements, each read once.
  std::vector<float> factors(const Node& t) {
    auto [N, C, H, W] = dims(t);
    std::vector<float> out;
    for (int64_t i = 0; i < N * C * H * W; ++i) out.push_back(factor(t, i));
    return out;
  }
  // Every pass adds the same products: x, w and y of one tap of one output.
  void convolve(const Node& op) {
    const Convolution z(op);
    const bool forward = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const bool data = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    const auto X = dims(*z.x), W = dims(*z.w), Y = dims(*z.y);
    const Node& out = forward ? *z.y : data ? *z.x : *z.w;
    const std::vector<float> a = factors(forward ? *z.x : *z.y), b = factors(forward || data ? *z.w : *z.x);
    const auto D = dims(out);
    std::vector<double> sums(static_cast<size_t>(D[0] * D[1] * D[2] * D[3]));
    const int64_t channels = W[1], group = W[0] / z.groups;
    // Pairs of an output and a tap that read something along an axis (0: height).
    struct Pair {
      int64_t output, tap, input;
    };
    auto pairs = [&](size_t axis) {
      const int64_t stride = z.of(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, axis),
                    padding = z.of(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, axis),
                    dilation = z.of(CUDNN_ATTR_CONVOLUTION_DILATIONS, axis);
      std::vector<Pair> found;
      for (int64_t o = 0; o < Y[2 + axis]; ++o)
        for (int64_t tap = 0; tap < W[2 + axis]; ++tap)
          if (int64_t i = o * stride - padding + tap * dilation; i >= 0 && i < X[2 + axis])
            found.push_back({o, tap, i});
      return found;
    };
    const std::vector<Pair> rows = pairs(0), columns = pairs(1);
    for (int64_t n = 0; n < Y[0]; ++n)
      for (const Pair& row : rows)
        for (const Pair& column : columns)
          for (int64_t o = 0; o < Y[1]; ++o) {
            const auto y = static_cast<size_t>(((n * Y[2] + row.output) * Y[3] + column.output) * Y[1] + o);
            const auto w = static_cast<size_t>(((o * W[2] + row.tap) * W[3] + column.tap) * channels);
            const auto x = static_cast<size_t>(((n * X[2] + row.input) * X[3] + column.input) * X[1] +
                                               o / group * channels);
            for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
              if (forward)
                sums[y] += double{a[x + c]} * b[w + c];
              else if (data)
                sums[x + c] += double{a[y]} * b[w + c];
              else
                sums[w + c] += double{a[y]} * b[x + c];
            }
          }
    for (size_t i = 0; i < sums.size(); ++i) write(out, static_cast<int64_t>(i), static_cast<float>(sums[i]));
  }
  void pointwise(const Node& op) {
    const Node &x = child(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
               &y = child(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    auto [N, C, H, W] = dims(y);
    if (!adds(op)) {
      for (int64_t i = 0; i < N * C * H * W; ++i) write(y, i, std::max(read(x, i), 0.0f));
      return;
    }
    const Node& b = child(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const bool whole = dims(b) == dims(y);  // or one number a channel
    for (int64_t i = 0; i < N * C * H * W; ++i) write(y, i, read(x, i) + read(b, whole ? i : i % C));
  }
};

}  // namespace

void run_operations(const std::vector<Ref>& operations, const std::map<int64_t, char*>& pointers,
                    bool tensor_cores) {
  Run run{pointers, {}, tensor_cores};
  for (const Ref& op : operations) is_convolution(*op) ? run.convolve(*op) : run.pointwise(*op);
}

}  // namespace saccade::emulator
