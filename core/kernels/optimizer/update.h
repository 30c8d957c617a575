// Makes an optimizer for every device from a functor that updates one element. The functor's file is compiled
// for the CPU and for the GPU, like every file of core/kernels:
//
//   struct Lion {
//     struct Rates { float keep, learning_rate; };      // the numbers of one tensor in one step
//     explicit Lion(const UpdateOptions& options);      // those of all tensors: members of the functor
//     static std::vector<std::string> state_names(const UpdateOptions& options);
//     static Rates rates(const OptimizerItem& item, const UpdateOptions& options);
//     // g is the gradient after clipping; one reference for each state tensor follows the parameter's.
//     SACCADE_HD void operator()(const Rates& rates, float g, float& p, float& m) const;
//   };
//   SACCADE_REGISTER_OPTIMIZER("lion", Lion);
#pragma once

#include <limits>
#include <type_traits>
#include <utility>

#include "core/kernels/common/chunks.h"
#include "core/kernels/optimizer/optimizer.h"
#include "core/runtime/launch.h"

#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
#include "core/runtime/cuda/block.h"
#endif

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

inline void check_list(const char* op, const Tensor& t, int64_t numel) {
  SACCADE_CHECK(t.dtype() == DType::kF32 && t.is_contiguous() && t.numel() == numel,
                "[{}] got a {} tensor of shape {}, expected contiguous f32 with {} elements", op, t.dtype(),
                t.shape(), numel);
}

// For a norm, which is not negative.
SACCADE_HD bool is_finite(double norm) { return norm <= std::numeric_limits<double>::max(); }

SACCADE_HD float clip_scale(double norm, double max_norm) {
  double scale = max_norm > 0 ? max_norm / (norm + 1e-6) : 1.0;
  return static_cast<float>(scale < 1 ? scale : 1.0);
}

SACCADE_HD float lerp(float from, float to, float weight) { return from + weight * (to - from); }

#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
constexpr int kUpdateThreads = 256;
constexpr int kFour = cuda::kPackWidth<float>;

// Returns whether all of these can be read 16 bytes at a time.
template <class... P>
__device__ __forceinline__ bool aligned(const P*... p) {
  return ((reinterpret_cast<uintptr_t>(p) | ...) % 16) == 0;
}
#endif

// A tensor, or a chunk of it.
template <class Rates, size_t kStates>
struct UpdateItem {
  float* p;
  const float* g;
  float* state[kStates > 0 ? kStates : 1];
  float* average;  // null if there is none
  int64_t count;
  Rates rates;
  int64_t first;  // the index of its first chunk
};

template <class Update, size_t... K>
struct UpdateTensors {
  using Rates = typename Update::Rates;
  using Item = UpdateItem<Rates, sizeof...(K)>;
  const Item* items;
  int64_t count, chunk;  // number of tensors, and elements per chunk
  const double* norm;
  double max_norm;
  Update update;
  float average_weight;

  SACCADE_HD Item cut(int64_t i) const {
    Item part = item_of(items, count, i);
    const int64_t begin = (i - part.first) * chunk;
    part.p += begin;
    part.g += begin;
    ((part.state[K] += begin), ...);
    if (part.average) part.average += begin;
    part.count = part.count - begin < chunk ? part.count - begin : chunk;
    return part;
  }
  // Updates chunk i, one element after the other.
  SACCADE_HD void operator()(int64_t i) const {
    if (!is_finite(*norm)) return;
    const Item part = cut(i);
    const Update f = update;
    run(f, part, clip_scale(*norm, max_norm), part.p, part.g, part.state[K]...);
  }
  template <class... State>
  SACCADE_HD void run(const Update& f, const Item& part, float scale, float* __restrict__ p,
                      const float* __restrict__ g, State* __restrict__... state) const {
    for (int64_t j = 0; j < part.count; ++j) f(part.rates, g[j] * scale, p[j], state[j]...);
    if (!part.average) return;
    float* __restrict__ average = part.average;
    for (int64_t j = 0; j < part.count; ++j) average[j] = lerp(average[j], p[j], average_weight);
  }

#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
  // Updates chunk i with one block: every number is read and written once, 16 bytes per thread and access.
  __device__ __forceinline__ void run_block(int64_t i) const {
    using cuda::load_pack, cuda::store_pack;
    if (!is_finite(*norm)) return;
    const Item part = cut(i);
    const float scale = clip_scale(*norm, max_norm);
    const int64_t packs = aligned(part.p, part.g, part.state[K]..., part.average) ? part.count / kFour : 0;
    for (int64_t k = threadIdx.x; k < packs; k += kUpdateThreads) {
      const int64_t at = k * kFour;
      auto p = load_pack<kFour>(part.p + at);
      const auto g = load_pack<kFour>(part.g + at);
      [[maybe_unused]] cuda::Pack<float, kFour> state[sizeof...(K) + 1] = {
          load_pack<kFour>(part.state[K] + at)...};
      cuda::Pack<float, kFour> average{};
      if (part.average) average = load_pack<kFour>(part.average + at);
      for (int e = 0; e < kFour; ++e) update(part.rates, g.x[e] * scale, p.x[e], state[K].x[e]...);
      store_pack(part.p + at, p);
      (store_pack(part.state[K] + at, state[K]), ...);
      if (!part.average) continue;
      for (int e = 0; e < kFour; ++e) average.x[e] = lerp(average.x[e], p.x[e], average_weight);
      store_pack(part.average + at, average);
    }
    for (int64_t j = packs * kFour + threadIdx.x; j < part.count; j += kUpdateThreads) {
      update(part.rates, part.g[j] * scale, part.p[j], part.state[K][j]...);
      if (part.average) part.average[j] = lerp(part.average[j], part.p[j], average_weight);
    }
  }
#endif
};

#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
template <class Tensors>
__global__ void __launch_bounds__(kUpdateThreads) update_tensors(Tensors tensors) {
  tensors.run_block(blockIdx.x);
}
#endif

// Returns the tensors in the device's form, and sets `chunks` to the number of their chunks.
template <class Update, size_t kStates>
std::vector<UpdateItem<typename Update::Rates, kStates>> update_items(std::span<OptimizerItem> items,
                                                                      const UpdateOptions& options,
                                                                      int64_t chunk, int64_t& chunks) {
  std::vector<UpdateItem<typename Update::Rates, kStates>> out;
  for (OptimizerItem& item : items) {
    const int64_t n = item.value.numel();
    SACCADE_CHECK(item.state.size() == kStates, "[optimizer] {} state tensors, but {} for other parameters",
                  item.state.size(), kStates);
    for (const Tensor* t : {&item.value, &item.grad}) check_list("optimizer", *t, n);
    UpdateItem<typename Update::Rates, kStates> whole{item.value.data<float>(),
                                                      item.grad.data<float>(),
                                                      {},
                                                      nullptr,
                                                      n,
                                                      Update::rates(item, options),
                                                      chunks};
    for (size_t k = 0; k < item.state.size(); ++k) {
      check_list("optimizer", item.state[k], n);
      whole.state[k] = item.state[k].template data<float>();
      item.state[k].bump_version();
    }
    if (item.average.defined()) {
      check_list("optimizer", item.average, n);
      whole.average = item.average.data<float>();
      item.average.bump_version();
    }
    item.value.bump_version();
    out.push_back(whole);
    chunks += ceil_div(n, chunk);
  }
  return out;
}

template <size_t>
struct StateReference {
  using type = float&;
};

// Starts the update if it takes sizeof...(K) state tensors and the items have as many; returns whether they
// do.
template <class Update, class Start, size_t... K>
bool try_update(const Tensor& norm, double max_norm, std::span<OptimizerItem> items,
                const UpdateOptions& options, double average_weight, int64_t chunk, const Start& start,
                std::index_sequence<K...>) {
  if constexpr (std::is_invocable_v<const Update&, const typename Update::Rates&, float, float&,
                                    typename StateReference<K>::type...>) {
    if (items[0].state.size() != sizeof...(K)) return false;
    using Tensors = UpdateTensors<Update, K...>;
    int64_t chunks = 0;
    const auto list = update_items<Update, sizeof...(K)>(items, options, chunk, chunks);
    Tensor table = upload_chunks(list, norm.device());
    if (chunks > 0)
      start(chunks,
            Tensors{chunks_of<typename Tensors::Item>(table), std::ssize(list), chunk, norm.data<double>(),
                    max_norm, Update(options), static_cast<float>(average_weight)});
    return true;
  } else {
    return false;
  }
}

// Splits the items into chunks and calls start(count, UpdateTensors) with them.
template <class Update, class Start>
void start_update(const Tensor& norm, double max_norm, std::span<OptimizerItem> items,
                  const UpdateOptions& options, double average_weight, int64_t chunk, const Start& start) {
  auto with = [&](auto states) {
    return try_update<Update>(norm, max_norm, items, options, average_weight, chunk, start, states);
  };
  SACCADE_CHECK(items.empty() || with(std::make_index_sequence<0>()) || with(std::make_index_sequence<1>()) ||
                    with(std::make_index_sequence<2>()) || with(std::make_index_sequence<3>()),
                "[optimizer] the update does not take {} state tensors", items[0].state.size());
}

template <class Update>
void update_generic(const Tensor& norm, double max_norm, std::span<OptimizerItem> items,
                    const UpdateOptions& options, double average_weight) {
  constexpr int64_t kChunk = 8192;
  start_update<Update>(norm, max_norm, items, options, average_weight, kChunk,
                       [](int64_t count, const auto& tensors) { for_each(count, tensors, 8 * kChunk); });
}

#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
// One launch covers all tensors: a block updates a chunk, with 16 packs per thread. The list of tensors (a
// few hundred of some 70 bytes for a whole detector) is uploaded in each step, since the gradients have new
// addresses each time.
template <class Update>
void update_cuda(const Tensor& norm, double max_norm, std::span<OptimizerItem> items,
                 const UpdateOptions& options, double average_weight) {
  constexpr int64_t kChunk = 16384;
  start_update<Update>(norm, max_norm, items, options, average_weight, kChunk,
                       [](int64_t count, const auto& tensors) {
                         cuda::launch("update_tensors", &update_tensors<std::decay_t<decltype(tensors)>>,
                                      {count, kUpdateThreads}, tensors);
                       });
}
#endif

// Registers this side's update with the kernel of this name.
template <class Update>
UpdateKernel& register_update(const char* name) {
  UpdateKernel& kernel = update_kernel(name);
  kernel.set_generic(kCompiledDevice, &update_generic<Update>);
#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
  kernel.set_tuned(Device::kCuda, &update_cuda<Update>);
#endif
  return kernel;
}

template <class Update>
bool register_optimizer(const char* name, const char* file) {
  UpdateKernel& kernel = register_update<Update>(name);
  return kCompiledDevice != Device::kCpu || optimizers().add({name, file, &Update::state_names, &kernel});
}

}  // namespace SACCADE_SIDE

#define SACCADE_REGISTER_OPTIMIZER(name, Update)           \
  [[maybe_unused]] static const bool Update##_registered = \
      ::saccade::kernels::register_optimizer<Update>(name, __FILE__)

}  // namespace saccade::kernels
