#include "core/kernels/conv2d/conv2d_cuda_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace saccade::cuda {
namespace {

constexpr int64_t kMaxWorkspace = int64_t{256} << 20;

enum Uid : int64_t { kX = 1, kW, kY, kBias, kResidual, kSum, kAdded, kBiased };

cudnnDataType_t type_of(DType dtype) {
  return dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

// cuDNN names sizes in the order [N, C, H, W]; the strides define the layout.
using Sizes = std::array<int64_t, 4>;

CudnnDescriptor tensor(Uid uid, DType dtype, const Sizes& nchw, bool is_virtual = false) {
  auto [N, C, H, W] = nchw;
  CudnnDescriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(dtype));
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, {N, C, H, W});
  t.set(CUDNN_ATTR_TENSOR_STRIDES, {H * W * C, 1, W * C, C});
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {uid});
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {kConvAlignment});
  t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  return std::move(t.finalize());
}

}  // namespace

// The operations of a problem: a convolution and, in forward, its epilogue. Owns the graph's descriptors.
class ConvPlanner::Graph {
 public:
  std::vector<CudnnDescriptor> parts, operations;
  CudnnDescriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};

  Graph(const ConvProblem& q, const ConvPlanner& planner) {
    parts.reserve(16);
    auto keep = [&](CudnnDescriptor d) -> const CudnnDescriptor& { return parts.emplace_back(std::move(d)); };
    const Sizes image{q.N, q.O, q.OH, q.OW};
    const auto& x = keep(tensor(kX, q.dtype, {q.N, q.C, q.H, q.W}));
    const auto& w = keep(tensor(kW, q.dtype, {q.O, q.C / q.p.groups, q.R, q.S}));
    const auto& y = keep(tensor(kY, q.dtype, image));
    const auto& convolution = keep(convolution_of(q.p));
    if (q.pass == ConvPass::kForward) {
      const bool more = q.bias || q.relu || q.residual;
      const auto& sum = more ? keep(tensor(kSum, DType::kF32, image, true)) : y;
      operation(
          CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
          x, w, sum, convolution);
      const CudnnDescriptor* last = &sum;
      // Engines require the residual before the bias, and both only in the dtype of y.
      if (q.residual) {
        const auto& residual = keep(tensor(kResidual, q.dtype, image));
        const auto& added = q.bias || q.relu ? keep(tensor(kAdded, DType::kF32, image, true)) : y;
        pointwise(CUDNN_POINTWISE_ADD, *last, &residual, added);
        last = &added;
      }
      if (q.bias) {
        const auto& bias = keep(tensor(kBias, q.dtype, {1, q.O, 1, 1}));
        const auto& biased = q.relu ? keep(tensor(kBiased, DType::kF32, image, true)) : y;
        pointwise(CUDNN_POINTWISE_ADD, *last, &bias, biased);
        last = &biased;
      }
      if (q.relu) pointwise(CUDNN_POINTWISE_RELU_FWD, *last, nullptr, y);
    } else if (q.pass == ConvPass::kData) {
      operation(
          CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
          {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
          x, w, y, convolution);
    } else {
      operation(
          CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
          x, w, y, convolution);
    }
    std::vector<cudnnBackendDescriptor_t> all;
    for (const CudnnDescriptor& o : operations) all.push_back(o.get());
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              std::span<const cudnnBackendDescriptor_t>(all));
    if (!planner.device_) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, cudnn_handle());
    graph.finalize();
  }

 private:
  static CudnnDescriptor convolution_of(const kernels::ConvParams& p) {
    CudnnDescriptor c(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    c.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    c.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
    c.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2});
    c.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {p.dilation, p.dilation});
    c.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {p.stride, p.stride});
    c.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {p.padding, p.padding});
    c.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {p.padding, p.padding});
    return std::move(c.finalize());
  }

  // The three passes differ only in the names of their attributes: x, w, y, convolution, alpha, beta.
  void operation(cudnnBackendDescriptorType_t type, const std::array<cudnnBackendAttributeName_t, 6>& names,
                 const CudnnDescriptor& x, const CudnnDescriptor& w, const CudnnDescriptor& y,
                 const CudnnDescriptor& convolution) {
    CudnnDescriptor o(type);
    o.set(names[0], x).set(names[1], w).set(names[2], y).set(names[3], convolution);
    o.set(names[4], CUDNN_TYPE_FLOAT, 1.0f).set(names[5], CUDNN_TYPE_FLOAT, 0.0f);
    operations.push_back(std::move(o.finalize()));
  }
  void pointwise(cudnnPointwiseMode_t mode, const CudnnDescriptor& x, const CudnnDescriptor* b,
                 const CudnnDescriptor& y) {
    CudnnDescriptor p(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    p.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    p.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    parts.push_back(std::move(p.finalize()));
    CudnnDescriptor o(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    o.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parts.back());
    o.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x).set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (b) o.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    operations.push_back(std::move(o.finalize()));
  }
};

namespace {

// Returns whether an engine with these notes may be used.
bool acceptable(const ConvProblem& q, const std::vector<cudnnBackendNumericalNote_t>& notes) {
  const bool exact = q.dtype == DType::kF32 && q.math == MathMode::kExact;
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:             // sums in order of arrival
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:  // sums in less than f32
        return true;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        return false;
      default:  // tensor cores, transformed domains, rounded factors
        return exact;
    }
  });
}

// Returns the first `most` descriptors of an attribute, copied into new ones.
std::vector<CudnnDescriptor> children(const CudnnDescriptor& parent, cudnnBackendAttributeName_t name,
                                      cudnnBackendDescriptorType_t type, int64_t most) {
  std::vector<CudnnDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < most; ++i) raw.push_back(found.emplace_back(type).get());
  const int64_t count = raw.empty() ? 0 : parent.get_into(name, raw);
  while (std::ssize(found) > count) found.pop_back();
  return found;
}

constexpr int64_t kMaxKnobs = 64;  // per engine; cuDNN 9.19 knows 44 types

ConvEngine engine_of(const CudnnDescriptor& configuration, const CudnnDescriptor& engine) {
  ConvEngine e;
  e.index = engine.values<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1).at(0);
  // When asked for the number of knobs, cuDNN answers 0, so there must be room for the maximum.
  for (const CudnnDescriptor& knob : children(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                              CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, kMaxKnobs))
    e.knobs.emplace_back(
        knob.values<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1).at(0),
        knob.values<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1).at(0));
  return e;
}

// Never destroyed, like the handle.
LruCache<std::optional<ConvPlan>>& plans() {
  static auto* plans = new LruCache<std::optional<ConvPlan>>(kConvPlanCapacity);
  return *plans;
}

}  // namespace

CacheKey ConvProblem::key() const {
  CacheKey key;
  key.add(pass, dtype, math, N, H, W, C, O, R, S, OH, OW, p.stride, p.padding, p.dilation, p.groups, bias,
          residual, relu);
  return key;
}

ConvProblem ConvProblem::typical() const {
  ConvProblem q = *this;
  const auto magnitude = std::bit_width(static_cast<uint64_t>(OH * OW));
  const auto side = static_cast<int64_t>(std::sqrt(0.75 * std::exp2(magnitude)));
  auto input = [&](int64_t taps) {
    return (side - 1) * p.stride + p.dilation * (taps - 1) + 1 - 2 * p.padding;
  };
  if (side < 1 || input(R) < 1 || input(S) < 1) return q;
  q.OH = q.OW = side;
  q.H = input(R);
  q.W = input(S);
  return q;
}

ConvPlanner::ConvPlanner(const std::string& device) {
  device_.emplace(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
               std::span<const char>(device.data(), device.size()));
  device_->finalize();
}

void ConvPlanner::name_device(CudnnDescriptor& d, cudnnBackendAttributeName_t device,
                              std::optional<cudnnBackendAttributeName_t> handle) const {
  if (device_)
    d.set(device, *device_);
  else if (handle)
    d.set(*handle, CUDNN_TYPE_HANDLE, cudnn_handle());
}

std::optional<ConvPlan> ConvPlanner::plan_of(const CudnnDescriptor& configuration) const {
  CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  name_device(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  if (plan.try_finalize() != CUDNN_STATUS_SUCCESS) return {};  // not for this shape, or not on this GPU
  ConvPlan made(std::move(plan));
  made.workspace_bytes_ =
      made.plan_.values<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1).at(0);
  if (made.workspace_bytes_ > kMaxWorkspace) return {};
  return made;
}

std::optional<ConvPlan> ConvPlanner::plan_of(const ConvEngine& e, const Graph& graph) const {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.graph).set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, {e.index});
  name_device(engine, CUDNN_ATTR_ENGINE_DEVICEPROP);
  if (engine.try_finalize() != CUDNN_STATUS_SUCCESS) return {};
  std::vector<CudnnDescriptor> knobs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (auto [type, value] : e.knobs) {
    CudnnDescriptor knob(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, type);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {value});
    raw.push_back(knobs.emplace_back(std::move(knob.finalize())).get());
  }
  CudnnDescriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!raw.empty())
    configuration.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                      std::span<const cudnnBackendDescriptor_t>(raw));
  if (configuration.try_finalize() != CUDNN_STATUS_SUCCESS) return {};
  return plan_of(configuration);
}

// Passes the heuristic's choices for a problem to enough(choice), best first, until it returns true.
template <class F>
void ConvPlanner::each_choice(const ConvProblem& problem, const Graph& graph, F&& enough) {
  ++heuristics_;
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.graph);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    name_device(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
    if (heuristic.try_finalize() != CUDNN_STATUS_SUCCESS) continue;  // no engine supports such a graph
    for (const CudnnDescriptor& configuration :
         children(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                  heuristic.get_into(CUDNN_ATTR_ENGINEHEUR_RESULTS, {}))) {
      CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      cudnnBackendDescriptor_t raw = engine.get();
      configuration.get_into(CUDNN_ATTR_ENGINECFG_ENGINE, {&raw, 1});
      if (!acceptable(problem, engine.values<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                                          CUDNN_TYPE_NUMERICAL_NOTE,
                                                                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT)))
        continue;
      if (std::optional<ConvPlan> plan = plan_of(configuration))
        if (enough(ConvChoice{engine_of(configuration, engine), std::move(*plan)})) return;
    }
  }
}

std::optional<ConvChoice> ConvPlanner::choose(const ConvProblem& problem, const Graph& graph) {
  std::optional<ConvChoice> first;
  each_choice(problem, graph, [&](ConvChoice choice) {
    first = std::move(choice);
    return true;
  });
  return first;
}

std::vector<ConvChoice> ConvPlanner::choices(const ConvProblem& problem, size_t most) {
  std::vector<ConvChoice> all;
  each_choice(problem, Graph(problem, *this), [&](ConvChoice choice) {
    all.push_back(std::move(choice));
    return all.size() == most;
  });
  return all;
}

std::optional<ConvPlan> ConvPlanner::make(const ConvProblem& problem) {
  const Graph graph(problem, *this);
  const ConvProblem typical = problem.typical();
  const std::string key = typical.key().text();
  std::optional<ConvEngine> engine;
  {
    std::lock_guard lock(mutex_);
    auto [known, is_new] = engines_.try_emplace(key);
    if (is_new)
      if (std::optional<ConvChoice> choice = choose(typical, Graph(typical, *this)))
        known->second = std::move(choice->engine);
    engine = known->second;
  }
  if (engine)
    if (std::optional<ConvPlan> plan = plan_of(*engine, graph)) return plan;
  // A problem that cannot be fused at one size cannot at another; the caller runs it in two steps.
  if (!engine && problem.fuses()) return {};
  // The engine does not support this size.
  if (std::optional<ConvChoice> choice = choose(problem, graph)) return std::move(choice->plan);
  return {};
}

void ConvPlan::run(const ConvTensors& t) const {
  Tensor workspace;
  if (workspace_bytes_ > 0) workspace = Tensor::empty({workspace_bytes_}, DType::kU8, Device::kCuda);
  std::vector<int64_t> uids;
  std::vector<const void*> pointers;
  for (auto [uid, pointer] :
       {std::pair{kX, t.x}, {kW, t.w}, {kY, t.y}, {kBias, t.bias}, {kResidual, t.residual}}) {
    if (!pointer) continue;
    uids.push_back(uid);
    pointers.push_back(pointer);
  }
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const int64_t>(uids));
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           std::span<const void* const>(pointers));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
           workspace.defined() ? workspace.raw() : nullptr);
  pack.finalize();
  ++launches;
  check(cudnn().cudnnBackendExecute(cudnn_handle(), plan_.get(), pack.get()), "cudnnBackendExecute");
}

std::shared_ptr<const std::optional<ConvPlan>> conv_plan(const ConvProblem& problem) {
  static auto* planner = new ConvPlanner;
  return plans().get(problem.key().text(), [&] { return planner->make(problem); });
}
CacheStats conv_plans() { return plans().stats(); }
void set_conv_plan_capacity(size_t capacity) { plans().set_capacity(capacity); }

}  // namespace saccade::cuda
