#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda_emulator/cudnn_graph.h"
#include "tests/cuda_emulator/library_faults.h"

using namespace saccade::emulator;

namespace {

std::string last_reason;
cudnnStatus_t refuse(cudnnStatus_t status, std::string why) {
  last_reason = std::move(why);
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

// The attributes that each kind of descriptor takes.
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
        {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, kNode, 1, 1},
        {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, 1},
        {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, 1},
        {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, 1},
        {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, kNode, 1, 1},
        {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, kNode, 1, kAny, false},
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

// Engine 0 adds in the order of arrival, 1 uses tensor cores, 2 does neither and needs a workspace. Engine 1
// has a tile of 0 or 1; a plan with 1 refuses images that are less than four pixels wide.
constexpr int64_t kWideTile = 4;
int64_t workspace_of(int64_t engine) {
  auto planned = library_faults().workspaces.find(engine);
  return planned != library_faults().workspaces.end() ? planned->second : engine == 2 ? 1000 : 0;
}
int64_t engine_of(const Node& plan) {
  return number(child(child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), CUDNN_ATTR_ENGINECFG_ENGINE),
                CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
}
std::vector<int64_t> notes_of(int64_t engine) {
  if (engine == 0) return {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
  if (engine == 1) return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  return {};
}

// Whether an engine takes a convolution with the operations after it. For cuDNN 9.19, conv_plans printed in
// every precision and for an A100, an H200 and an RTX 4090 alike:
//   one graph: +bias +residual+bias +bias+relu +residual+bias+relu
//   refused: +residual (207 ms) +relu (207 ms) +residual+relu (215 ms)
// with biases and residuals of the dtype of the convolution and results in between of f32; a bias of f32
// together with bf16 is refused as well.
bool is_fused(const std::vector<Ref>& ops) {
  const Convolution c(*ops[0]);
  const Sizes all = dims(*c.y), channels{1, all[1], 1, 1};
  const auto sums = std::count_if(ops.begin() + 1, ops.end(), [](const Ref& op) { return adds(*op); });
  const Node* last = c.y;
  bool activated = false;
  for (size_t i = 1; i < ops.size(); ++i) {
    if (!is_virtual(*last) || is_bf16(*last) || activated) return false;
    if (uid(child(*ops[i], CUDNN_ATTR_OPERATION_POINTWISE_XDESC)) != uid(*last)) return false;
    if (adds(*ops[i])) {
      const Node& b = child(*ops[i], CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
      if (is_virtual(b) || is_bf16(b) != is_bf16(*c.x)) return false;
      if (dims(b) != (sums == 2 && i == 1 ? all : channels)) return false;
    } else {
      activated = true;
    }
    last = &child(*ops[i], CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  }
  return !is_virtual(*last) && (ops.size() == 1 || sums == 1 || sums == 2);
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
    // As the library answered for an H200: the three tensors of a convolution that are not virtual must have
    // one dtype.
    const auto& ops = child(n, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (!is_convolution(*ops[0])) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a graph without a convolution");
    Convolution c(*ops[0]);
    if (is_bf16(*c.x) != is_bf16(*c.w) || (!is_virtual(*c.y) && is_bf16(*c.x) != is_bf16(*c.y)))
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "mixed dtypes");
  }
  if (n.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR)
    n.nodes[CUDNN_ATTR_OPERATIONGRAPH_OPS] =
        child(n, CUDNN_ATTR_ENGINE_OPERATION_GRAPH).nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (n.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const Node& configuration = child(n, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const Node& engine = child(configuration, CUDNN_ATTR_ENGINECFG_ENGINE);
    const bool has_knobs = configuration.nodes.count(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) > 0;
    if (has_knobs != (number(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 1))
      return bad("knobs of this engine");
    if (has_knobs &&
        number(child(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES), CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE) ==
            1 &&
        dims(*Convolution(*engine.nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)[0]).y)[3] < kWideTile)
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the tile is wider than the image");
  }
  if (n.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && library_faults().unfit_engines.count(engine_of(n)))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "an engine that does not fit the problem");
  if (n.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR &&
      n.numbers.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() !=
          n.numbers.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size())
    return bad("as many pointers as identifiers");
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

saccade::emulator::LibraryFaults& saccade::emulator::library_faults() {
  static LibraryFaults faults;
  return faults;
}

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS            ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_NOT_SUPPORTED    ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
                                                   : "CUDNN_STATUS_BAD_PARAM";
}
void cudnnGetLastErrorString(char* message, size_t size) {
  size_t n = std::min(last_reason.size(), size - 1);
  std::copy_n(last_reason.data(), n, message);
  message[n] = 0;
}
struct cudnnContext {
  cudaStream_t stream = nullptr;
};

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  static cudnnContext machine;
  *handle = &machine;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

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
    if (library_faults().no_engines || !is_fused(ops)) engines.clear();
    *count = static_cast<int64_t>(engines.size());
    for (int64_t i = 0; i < std::min(room, *count); ++i) {
      Node& configuration = node(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
      if (configuration.type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) return bad("a configuration to fill");
      Ref engine(new Node{CUDNN_BACKEND_ENGINE_DESCRIPTOR, true});
      engine->numbers[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = {engines[static_cast<size_t>(i)]};
      engine->nodes[CUDNN_ATTR_OPERATIONGRAPH_OPS] = ops;
      configuration.nodes[CUDNN_ATTR_ENGINECFG_ENGINE] = {engine};
      if (engines[static_cast<size_t>(i)] != 1) continue;
      Ref knob(new Node{CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, true});
      knob->numbers[CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE] = {CUDNN_KNOB_TYPE_TILE_SIZE};
      knob->numbers[CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE] = {dims(*Convolution(*ops[0]).y)[3] >= kWideTile};
      configuration.nodes[CUDNN_ATTR_ENGINECFG_KNOB_CHOICES] = {knob};
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (n.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    if (type != kNode || room < 1) return bad("the engine of a configuration");
    node(*static_cast<cudnnBackendDescriptor_t*>(values)) = child(n, name);
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  if (n.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) {
    if (type != kNode) return bad("the knobs of a configuration");
    auto knobs = n.nodes.find(name);
    *count = knobs == n.nodes.end() || room == 0 ? 0 : 1;  // 0 without room: cuDNN 9.19 counts what it copies
    if (*count > 0) node(*static_cast<cudnnBackendDescriptor_t*>(values)) = *knobs->second[0];
    return CUDNN_STATUS_SUCCESS;
  }
  std::vector<int64_t> found;
  if (n.type == CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR ||
      (n.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX))
    found = {number(n, name)};
  else if (n.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE &&
           type == CUDNN_TYPE_NUMERICAL_NOTE)
    found = notes_of(number(n, CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  else if (n.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && n.finalized &&
           name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64)
    found = {workspace_of(engine_of(n))};
  else
    return bad("attribute " + std::to_string(name) + " cannot be read");
  *count = static_cast<int64_t>(found.size());
  for (int64_t i = 0; i < std::min(room, *count); ++i)
    std::memcpy(static_cast<char*>(values) + i * static_cast<int64_t>(size_of(type)),
                &found[static_cast<size_t>(i)], size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const Node &p = node(plan), &v = node(pack);
  if (!p.finalized || !v.finalized) return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan or pack");
  const Node& engine = child(child(p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), CUDNN_ATTR_ENGINECFG_ENGINE);
  const int64_t index = number(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  if (index == 0) return refuse(CUDNN_STATUS_EXECUTION_FAILED, "an engine whose results do not repeat");
  std::map<int64_t, char*> pointers;
  const auto& uids = v.numbers.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  for (size_t i = 0; i < uids.size(); ++i)
    pointers[uids[i]] = std::bit_cast<char*>(v.numbers.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)[i]);
  auto* workspace = std::bit_cast<char*>(number(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
  // A single thread suffices: only bounds and unwritten memory are checked.
  saccade::emulator::issue(*handle->stream, [=, operations = engine.nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)] {
    saccade::emulator::launch("cudnnBackendExecute", {1, 1, 1}, {1, 1, 1}, 0, [&] {
      if (int64_t bytes = workspace_of(index); bytes > 0)
        check_access(workspace, static_cast<size_t>(bytes), Access::kWrite);
      run_operations(operations, pointers, index == 1);
    });
  });
  if (saccade::emulator::fault().empty()) return CUDNN_STATUS_SUCCESS;
  return refuse(CUDNN_STATUS_EXECUTION_FAILED, "the emulator reports: " + saccade::emulator::fault());
}
