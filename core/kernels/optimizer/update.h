// From a functor that updates one element to an optimizer on every device. The functor's file is compiled for the CPU and for
// the GPU, as every file of core/kernels:
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

#include <cmath>
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
                "[{}] got a {} tensor of shape {}, expected contiguous f32 with {} elements", op,
                name_of(t.dtype()), t.shape().to_string(), numel);
}

// Of a norm, which is not negative.
SACCADE_HD bool is_finite(double norm) { return norm <= std::numeric_limits<double>::max(); }

SACCADE_HD float clip_scale(double norm, double max_norm) {
  double scale = max_norm > 0 ? max_norm / (norm + 1e-6) : 1.0;
  return static_cast<float>(scale < 1 ? scale : 1.0);
}

SACCADE_HD float lerp(float from, float to, float weight) { return from + weight * (to - from); }

#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
constexpr int kUpdateThreads = 256;
constexpr int kFour = cuda::kPackWidth<float>;

// Whether all of these can be read 16 bytes at a time.
template <class... P>
__device__ __forceinline__ bool aligned(const P*... p) {
  return ((reinterpret_cast<uintptr_t>(p) | ...) % 16) == 0;
}
#endif

template <class Rates, size_t kStates>
struct UpdateChunk {
  float* p;
  const float* g;
  float* state[kStates > 0 ? kStates : 1];
  float* average;  // null: none
  int64_t count;
  Rates rates;
};

template <class Update, size_t... K>
struct UpdateTensors {
  using Rates = typename Update::Rates;
  using Chunk = UpdateChunk<Rates, sizeof...(K)>;
  const Chunk* chunks;
  const double* norm;
  double max_norm;
  Update update;
  float average_weight;

  // Chunk i, one element after the other.
  SACCADE_HD void operator()(int64_t i) const {
    if (!is_finite(*norm)) return;
    const Chunk chunk = chunks[i];
    const Update f = update;
    run(f, chunk, clip_scale(*norm, max_norm), chunk.p, chunk.g, chunk.state[K]...);
  }
  template <class... State>
  SACCADE_HD void run(const Update& f, const Chunk& chunk, float scale, float* __restrict__ p,
                      const float* __restrict__ g, State* __restrict__... state) const {
    for (int64_t j = 0; j < chunk.count; ++j) f(chunk.rates, g[j] * scale, p[j], state[j]...);
    if (!chunk.average) return;
    float* __restrict__ average = chunk.average;
    for (int64_t j = 0; j < chunk.count; ++j) average[j] = lerp(average[j], p[j], average_weight);
  }

#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
  // Chunk i by one block: every number is read and written once, 16 bytes a thread and access.
  __device__ __forceinline__ void run_block(int64_t i) const {
    using cuda::load_pack, cuda::store_pack;
    if (!is_finite(*norm)) return;
    const Chunk chunk = chunks[i];
    const float scale = clip_scale(*norm, max_norm);
    const int64_t packs =
        aligned(chunk.p, chunk.g, chunk.state[K]..., chunk.average) ? chunk.count / kFour : 0;
    for (int64_t k = threadIdx.x; k < packs; k += kUpdateThreads) {
      const int64_t at = k * kFour;
      auto p = load_pack<kFour>(chunk.p + at);
      const auto g = load_pack<kFour>(chunk.g + at);
      [[maybe_unused]] cuda::Pack<float, kFour> state[sizeof...(K) + 1] = {
          load_pack<kFour>(chunk.state[K] + at)...};
      cuda::Pack<float, kFour> average{};
      if (chunk.average) average = load_pack<kFour>(chunk.average + at);
      for (int e = 0; e < kFour; ++e) update(chunk.rates, g.x[e] * scale, p.x[e], state[K].x[e]...);
      store_pack(chunk.p + at, p);
      (store_pack(chunk.state[K] + at, state[K]), ...);
      if (!chunk.average) continue;
      for (int e = 0; e < kFour; ++e) average.x[e] = lerp(average.x[e], p.x[e], average_weight);
      store_pack(chunk.average + at, average);
    }
    for (int64_t j = packs * kFour + threadIdx.x; j < chunk.count; j += kUpdateThreads) {
      update(chunk.rates, chunk.g[j] * scale, chunk.p[j], chunk.state[K][j]...);
      if (chunk.average) chunk.average[j] = lerp(chunk.average[j], chunk.p[j], average_weight);
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

template <class Update, size_t kStates>
std::vector<UpdateChunk<typename Update::Rates, kStates>> update_chunks(std::span<OptimizerItem> items,
                                                                        const UpdateOptions& options,
                                                                        int64_t chunk) {
  std::vector<UpdateChunk<typename Update::Rates, kStates>> chunks;
  for (OptimizerItem& item : items) {
    const int64_t n = item.value.numel();
    SACCADE_CHECK(item.state.size() == kStates, "[optimizer] {} state tensors beside {} of other parameters",
                  item.state.size(), kStates);
    for (const Tensor* t : {&item.value, &item.grad}) check_list("optimizer", *t, n);
    UpdateChunk<typename Update::Rates, kStates> whole{
        item.value.data<float>(), item.grad.data<float>(), {}, nullptr, n, Update::rates(item, options)};
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
    for_chunks(n, chunk, [&](int64_t begin, int64_t count) {
      auto part = whole;
      part.p += begin;
      part.g += begin;
      for (size_t k = 0; k < item.state.size(); ++k) part.state[k] += begin;
      if (part.average) part.average += begin;
      part.count = count;
      chunks.push_back(part);
    });
  }
  return chunks;
}

template <size_t>
struct StateReference {
  using type = float&;
};

// Starts the update if it takes sizeof...(K) state tensors and the items have as many: returns whether they do.
template <class Update, class Start, size_t... K>
bool try_update(const Tensor& norm, double max_norm, std::span<OptimizerItem> items,
                const UpdateOptions& options, double average_weight, int64_t chunk, const Start& start,
                std::index_sequence<K...>) {
  if constexpr (std::is_invocable_v<const Update&, const typename Update::Rates&, float, float&,
                                    typename StateReference<K>::type...>) {
    if (items[0].state.size() != sizeof...(K)) return false;
    using Tensors = UpdateTensors<Update, K...>;
    auto chunks = update_chunks<Update, sizeof...(K)>(items, options, chunk);
    Tensor table = upload_chunks(chunks, norm.device());
    if (!chunks.empty())
      start(static_cast<int64_t>(chunks.size()),
            Tensors{chunks_of<typename Tensors::Chunk>(table), norm.data<double>(), max_norm, Update(options),
                    static_cast<float>(average_weight)});
    return true;
  } else {
    return false;
  }
}

// Cuts the items into chunks and calls start(count, UpdateTensors) with them.
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
// One launch covers all tensors: a block updates a chunk, 16 packs a thread. The chunks (a few thousand of some 60 bytes for a
// whole detector) are uploaded at each step.
template <class Update>
void update_cuda(const Tensor& norm, double max_norm, std::span<OptimizerItem> items,
                 const UpdateOptions& options, double average_weight) {
  constexpr int64_t kChunk = 16384;
  start_update<Update>(norm, max_norm, items, options, average_weight, kChunk,
                       [](int64_t count, const auto& tensors) {
                         cuda::launch("update_tensors", &update_tensors<std::decay_t<decltype(tensors)>>,
                                      dim3(static_cast<unsigned>(count)), dim3(kUpdateThreads), 0, tensors);
                       });
}
#endif

// Gives the kernel of this name the update on this side.
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
