#include "tests/cuda_emulator/cudnn.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace {

using saccade::bf16;
using saccade::emulator::Access;
using saccade::emulator::check_access;

struct Node;
using Ref = std::shared_ptr<Node>;

// A descriptor; the caller's handle is a pointer to one more reference.
struct Node {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, std::vector<int64_t>> numbers{};  // every attribute of fixed size, widened
  std::map<int, std::vector<Ref>> nodes{};
};

Node& node(cudnnBackendDescriptor_t d) { return **static_cast<Ref*>(d); }

std::string last_error;
cudnnStatus_t refuse(cudnnStatus_t status, std::string why) {
  last_error = std::move(why);
  return status;
}
cudnnStatus_t bad(std::string why) { return refuse(CUDNN_STATUS_BAD_PARAM, std::move(why)); }

struct Rule {
  int type, name;
  cudnnBackendAttributeType_t value;
  int64_t least, most;
  bool required = true;
};
constexpr int64_t kAny = 1 << 20;
constexpr auto kNode = CUDNN_TYPE_BACKEND_DESCRIPTOR;

// What each kind of descriptor takes.
const std::vector<Rule>& rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> r{
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, 4},
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, 4},
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, 1},
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1},
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, 1, false},
        {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
        {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
         1, 1},
        {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, 1},
        {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, 1},
        {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1},
        {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kNode, 1,
         1},
        {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, kNode, 1, 1},
        {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, kNode, 1, 1},
        {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, kNode, 1, 1,
         false},
        {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, kNode, 1, kAny},
        {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, 1},
        {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, kNode, 1, 1},
        {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1},
        {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, kNode, 1, 1},
        {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, 1},
        {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1,
         kAny},
        {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1,
         kAny},
        {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1},
    };
    for (int name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                     CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS})
      r.push_back({CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, name, CUDNN_TYPE_INT64, 2, 2});
    const std::pair<int, int> passes[] = {
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 700},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 706},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 712}};
    for (auto [type, alpha] : passes) {
      for (int i : {0, 1}) r.push_back({type, alpha + i, CUDNN_TYPE_FLOAT, 1, 1});
      for (int i : {2, 3, 4, 5}) r.push_back({type, alpha + i, kNode, 1, 1});
    }
    return r;
  }();
  return rules;
}

size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

int64_t number(const Node& n, int name, size_t i = 0) { return n.numbers.at(name).at(i); }
const Node& child(const Node& n, int name) { return *n.nodes.at(name).at(0); }

// ---- tensors, in cuDNN's order [N, C, H, W] or [O, C, R, S]
using Sizes = std::array<int64_t, 4>;
Sizes sizes_of(const Node& tensor, int name) {
  const auto& v = tensor.numbers.at(name);
  return {v[0], v[1], v[2], v[3]};
}
Sizes dims(const Node& t) { return sizes_of(t, CUDNN_ATTR_TENSOR_DIMENSIONS); }
int64_t uid(const Node& t) { return number(t, CUDNN_ATTR_TENSOR_UNIQUE_ID); }
bool is_virtual(const Node& t) {
  auto it = t.numbers.find(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  return it != t.numbers.end() && it->second[0];
}
bool is_bf16(const Node& t) { return number(t, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16; }

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
  // What the window's tap `r` of output `o` reads along an axis (0: height).
  int64_t input(size_t axis, int64_t o, int64_t r) const {
    return o * of(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, axis) -
           of(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, axis) + r * of(CUDNN_ATTR_CONVOLUTION_DILATIONS, axis);
  }
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

bool is_convolution(const Node& n) { return n.type >= 10 && n.type <= 12; }

// Engines: 0 adds in the order of arrival, 1 uses tensor cores, 2 neither, and needs a workspace.
constexpr int64_t kWorkspace = 1000;
std::vector<int64_t> notes_of(int64_t engine) {
  if (engine == 0) return {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
  if (engine == 1) return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  return {};
}

cudnnStatus_t validate(Node& n) {
  for (const Rule& rule : rules()) {
    if (rule.type != n.type || !rule.required) continue;
    if (!n.numbers.count(rule.name) && !n.nodes.count(rule.name))
      return bad("attribute " + std::to_string(rule.name) + " is missing");
  }
  if (n.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    auto d = dims(n), s = sizes_of(n, CUDNN_ATTR_TENSOR_STRIDES);
    for (size_t i = 0; i < 4; ++i)
      if (d[i] < 1 || s[i] < 1) return bad("a size or stride below 1");
    int64_t C = d[1], H = d[2], W = d[3];
    if (s != Sizes{H * W * C, 1, W * C, C})
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the stand-in knows channels-last tensors only");
    if (number(n, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) < (is_bf16(n) ? 2 : 4)) return bad("byte alignment");
  }
  if (n.type == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) {
    if (number(n, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != 2) return bad("spatial dimensions");
    for (size_t a : {size_t{0}, size_t{1}})
      if (number(n, CUDNN_ATTR_CONVOLUTION_DILATIONS, a) < 1 ||
          number(n, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, a) < 1 ||
          number(n, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, a) < 0)
        return bad("strides, dilations or paddings");
  }
  if (is_convolution(n) && !Convolution(n).consistent()) return bad("the sizes of x, w and y do not fit");
  if (n.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    // As the library was seen to answer for an H200: one dtype for the three tensors of a convolution, and
    // nothing fused to one of bf16 with a bias of f32.
    const auto& ops = child(n, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (!is_convolution(*ops[0])) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a graph without a convolution");
    Convolution c(*ops[0]);
    if (is_bf16(*c.x) != is_bf16(*c.w) || is_bf16(*c.x) != is_bf16(*c.y))
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "mixed dtypes");
  }
  if (n.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR &&
      n.numbers.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() !=
          n.numbers.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size())
    return bad("as many pointers as identifiers");
  return CUDNN_STATUS_SUCCESS;
}

// ---- execution
float rounded_to_tf32(float v) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(v) + 0x1000u) & ~0x1FFFu);
}

struct Run {
  std::map<int64_t, char*> pointers;
  std::map<int64_t, std::vector<float>> virtuals;
  bool tensor_cores;

  static int64_t place(const Node& t, int64_t n, int64_t c, int64_t h, int64_t w) {
    auto [N, C, H, W] = dims(t);
    return ((n * H + h) * W + w) * C + c;
  }
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

  // Every pass adds the same products: x, w and y of one tap of one output.
  void convolve(const Node& op) {
    Convolution z(op);
    const bool forward = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const bool data = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    auto X = dims(*z.x), W = dims(*z.w), Y = dims(*z.y);
    const Node& out = forward ? *z.y : data ? *z.x : *z.w;
    auto D = dims(out);
    std::vector<double> sums(static_cast<size_t>(D[0] * D[1] * D[2] * D[3]));
    for (int64_t n = 0; n < Y[0]; ++n)
      for (int64_t oh = 0; oh < Y[2]; ++oh)
        for (int64_t ow = 0; ow < Y[3]; ++ow)
          for (int64_t o = 0; o < Y[1]; ++o)
            for (int64_t r = 0; r < W[2]; ++r)
              for (int64_t s = 0; s < W[3]; ++s) {
                int64_t h = z.input(0, oh, r), v = z.input(1, ow, s);
                if (h < 0 || h >= X[2] || v < 0 || v >= X[3]) continue;
                for (int64_t c = 0; c < W[1]; ++c) {
                  int64_t ix = place(*z.x, n, o / (W[0] / z.groups) * W[1] + c, h, v);
                  int64_t iw = place(*z.w, o, c, r, s), iy = place(*z.y, n, o, oh, ow);
                  if (forward)
                    sums[static_cast<size_t>(iy)] += double{factor(*z.x, ix)} * factor(*z.w, iw);
                  else if (data)
                    sums[static_cast<size_t>(ix)] += double{factor(*z.y, iy)} * factor(*z.w, iw);
                  else
                    sums[static_cast<size_t>(iw)] += double{factor(*z.y, iy)} * factor(*z.x, ix);
                }
              }
    for (size_t i = 0; i < sums.size(); ++i) write(out, static_cast<int64_t>(i), static_cast<float>(sums[i]));
  }
  void pointwise(const Node& op) {
    const Node &x = child(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
               &y = child(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const bool add = number(child(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
                            CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_ADD;
    auto [N, C, H, W] = dims(y);
    for (int64_t i = 0; i < N * C * H * W; ++i) {
      float v = read(x, i);
      write(y, i, add ? v + read(child(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC), i % C) : std::max(v, 0.0f));
    }
  }
};

}  // namespace

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS            ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_NOT_SUPPORTED    ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
                                                   : "CUDNN_STATUS_BAD_PARAM";
}
void cudnnGetLastErrorString(char* message, size_t size) {
  size_t n = std::min(last_error.size(), size - 1);
  std::copy_n(last_error.data(), n, message);
  message[n] = 0;
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = nullptr;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* d) {
  *d = new Ref(new Node{type});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  delete static_cast<Ref*>(d);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  Node& n = node(d);
  if (n.finalized) return bad("a finalized descriptor");
  for (const Rule& rule : rules()) {
    if (rule.type != n.type || rule.name != name) continue;
    if (rule.value != type) return bad("the type of attribute " + std::to_string(name));
    if (count < rule.least || count > rule.most) return bad("the count of attribute " + std::to_string(name));
    auto* bytes = static_cast<const char*>(values);
    n.numbers.erase(name);
    n.nodes.erase(name);
    for (int64_t i = 0; i < count; ++i, bytes += size_of(type)) {
      int64_t bits = 0;
      std::memcpy(&bits, bytes, size_of(type));
      if (type != kNode) {
        n.numbers[name].push_back(bits);
        continue;
      }
      const Ref& other = *std::bit_cast<Ref*>(bits);
      if (!other->finalized && other->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor that is not finalized");
      n.nodes[name].push_back(other);
    }
    return CUDNN_STATUS_SUCCESS;
  }
  return bad("no attribute " + std::to_string(name) + " in this descriptor");
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) {
  Node& n = node(d);
  if (cudnnStatus_t status = validate(n); status != CUDNN_STATUS_SUCCESS) return status;
  n.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t* count,
                                       void* values) {
  Node& n = node(d);
  if (n.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    if (!n.finalized || type != kNode) return bad("results of a heuristic");
    const auto& graph = n.nodes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)[0];
    const auto& ops = graph->nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    std::vector<int64_t> engines = number(n, CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A
                                       ? std::vector<int64_t>{0, 1}
                                       : std::vector<int64_t>{2};
    if (ops.size() > 1 && is_bf16(*Convolution(*ops[0]).x)) engines.clear();
    *count = static_cast<int64_t>(engines.size());
    for (int64_t i = 0; i < std::min(room, *count); ++i) {
      Node& configuration = node(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
      if (configuration.type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) return bad("a configuration to fill");
      Ref engine(new Node{CUDNN_BACKEND_ENGINE_DESCRIPTOR, true});
      engine->numbers[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = {engines[static_cast<size_t>(i)]};
      engine->nodes[CUDNN_ATTR_OPERATIONGRAPH_OPS] = ops;
      configuration.nodes[CUDNN_ATTR_ENGINECFG_ENGINE] = {engine};
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (n.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    if (type != kNode || room < 1) return bad("the engine of a configuration");
    node(*static_cast<cudnnBackendDescriptor_t*>(values)) = child(n, name);
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  std::vector<int64_t> found;
  if (n.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE &&
      type == CUDNN_TYPE_NUMERICAL_NOTE)
    found = notes_of(number(n, CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  else if (n.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && n.finalized &&
           name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64)
    found = {number(child(child(n, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), CUDNN_ATTR_ENGINECFG_ENGINE),
                    CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 2
                 ? kWorkspace
                 : 0};
  else
    return bad("attribute " + std::to_string(name) + " cannot be read");
  *count = static_cast<int64_t>(found.size());
  for (int64_t i = 0; i < std::min(room, *count); ++i)
    std::memcpy(static_cast<char*>(values) + i * static_cast<int64_t>(size_of(type)),
                &found[static_cast<size_t>(i)], size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const Node &p = node(plan), &v = node(pack);
  if (!p.finalized || !v.finalized) return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan or pack");
  const Node& engine = child(child(p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), CUDNN_ATTR_ENGINECFG_ENGINE);
  const int64_t index = number(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  if (index == 0) return refuse(CUDNN_STATUS_EXECUTION_FAILED, "an engine whose results do not repeat");
  Run run{{}, {}, index == 1};
  const auto& uids = v.numbers.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  for (size_t i = 0; i < uids.size(); ++i)
    run.pointers[uids[i]] = std::bit_cast<char*>(v.numbers.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)[i]);
  auto* workspace = std::bit_cast<char*>(number(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
  // One thread does it all: the checks are for bounds and for what nobody wrote.
  saccade::emulator::launch("cudnnBackendExecute", {1, 1, 1}, {1, 1, 1}, 0, [&] {
    if (index == 2) check_access(workspace, kWorkspace, Access::kWrite);
    for (const Ref& op : engine.nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS))
      is_convolution(*op) ? run.convolve(*op) : run.pointwise(*op);
  });
  if (saccade::emulator::fault().empty()) return CUDNN_STATUS_SUCCESS;
  return refuse(CUDNN_STATUS_EXECUTION_FAILED, "the emulator reports: " + saccade::emulator::fault());
}
