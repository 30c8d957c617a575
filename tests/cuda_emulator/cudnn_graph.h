// The stand-in's descriptors: what a caller has set, and the tensors and convolutions that they describe.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "core/runtime/cuda/libraries/cudnn_api.h"

namespace saccade::emulator {

struct Node;
using Ref = std::shared_ptr<Node>;

// A descriptor; the caller's handle is a pointer to one more reference.
struct Node {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, std::vector<int64_t>> numbers{};  // every attribute of fixed size, widened
  std::map<int, std::vector<Ref>> nodes{};
};

inline Node& node(cudnnBackendDescriptor_t d) { return **static_cast<Ref*>(d); }

inline int64_t number(const Node& n, int name, size_t i = 0) { return n.numbers.at(name).at(i); }
inline const Node& child(const Node& n, int name) { return *n.nodes.at(name).at(0); }

// ---- tensors, in cuDNN's order [N, C, H, W] or [O, C, R, S]
using Sizes = std::array<int64_t, 4>;
inline Sizes sizes_of(const Node& tensor, int name) {
  const auto& v = tensor.numbers.at(name);
  return {v[0], v[1], v[2], v[3]};
}
inline Sizes dims(const Node& t) { return sizes_of(t, CUDNN_ATTR_TENSOR_DIMENSIONS); }
inline int64_t uid(const Node& t) { return number(t, CUDNN_ATTR_TENSOR_UNIQUE_ID); }
inline bool is_virtual(const Node& t) {
  auto it = t.numbers.find(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  return it != t.numbers.end() && it->second[0];
}
inline bool is_bf16(const Node& t) { return number(t, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16; }

// The three tensors of a convolution, whatever the pass calls them.
struct Convolution {
  const Node *x, *w, *y, *conv;
  int64_t groups;

  explicit Convolution(const Node& op) {
    const bool forward = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const bool data = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    x = &child(op, forward ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X
                   : data  ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX
                           : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
    w = &child(op, forward ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W
                   : data  ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W
                           : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
    y = &child(op, forward ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y
                   : data  ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY
                           : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
    conv = &child(op, forward ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC
                      : data  ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
                              : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
    groups = dims(*w)[1] > 0 ? dims(*x)[1] / dims(*w)[1] : 0;
  }
  int64_t of(int name, size_t axis) const { return number(*conv, name, axis); }
  bool consistent() const {
    auto X = dims(*x), W = dims(*w), Y = dims(*y);
    if (X[0] != Y[0] || W[0] != Y[1] || groups < 1 || groups * W[1] != X[1] || W[0] % groups != 0)
      return false;
    for (size_t a : {size_t{0}, size_t{1}}) {
      int64_t room = X[2 + a] + of(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, a) +
                     of(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, a) -
                     of(CUDNN_ATTR_CONVOLUTION_DILATIONS, a) * (W[2 + a] - 1) - 1;
      if (room < 0 || room / of(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, a) + 1 != Y[2 + a]) return false;
    }
    return true;
  }
};

inline bool is_convolution(const Node& n) { return n.type >= 10 && n.type <= 12; }
// Whether a pointwise operation is a sum; otherwise it is ReLU.
inline bool adds(const Node& op) {
  return number(child(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR), CUDNN_ATTR_POINTWISE_MODE) ==
         CUDNN_POINTWISE_ADD;
}

// Runs a convolution and the operations fused with it on tensors by their identifiers, from a kernel.
void run_operations(const std::vector<Ref>& operations, const std::map<int64_t, char*>& pointers,
                    bool tensor_cores);

}  // namespace saccade::emulator
