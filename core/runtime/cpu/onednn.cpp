#include "core/runtime/cpu/onednn.h"

#include <sys/mman.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "core/runtime/parallel.h"
#include "core/tensor/prepared.h"

namespace saccade::onednn {
namespace {

LruCache<Compiled>& cache() {
  static LruCache<Compiled> cache(256);
  return cache;
}

const dnnl::stream& stream() {
  thread_local dnnl::stream s(engine());
  return s;
}

dnnl::memory memory_of(const Desc& desc, const void* data) {
  return dnnl::memory(desc, engine(), const_cast<void*>(data));
}

Tensor temporary(const Desc& desc) {
  return Tensor::empty({static_cast<int64_t>(desc.get_size())}, DType::kU8);
}

void execute(const dnnl::primitive& primitive, std::unordered_map<int, dnnl::memory> arguments,
             const Desc& scratch, bool independent) {
  std::optional<IndependentLoops> scope;
  if (independent) scope.emplace();
  Tensor buffer;
  if (scratch.get_size() > 0) {
    buffer = temporary(scratch);
    arguments[DNNL_ARG_SCRATCHPAD] = memory_of(scratch, buffer.raw());
  }
  primitive.execute(stream(), arguments);
}

// Returns whether no thread of the primitive waits for another. That holds for the implementations of oneDNN
// 2 that are named here, except for gradients of weights.
bool is_independent([[maybe_unused]] const dnnl::primitive_desc_base& pd,
                    [[maybe_unused]] const std::vector<Argument>& arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return false;
#else
  const std::string_view name = pd.impl_info_str();
  const auto any = [&](auto... start) { return (name.starts_with(start) || ...); };
  switch (pd.get_kind()) {
    case dnnl::primitive::kind::matmul:
      return any("brg");
    case dnnl::primitive::kind::reorder:
      return any("jit", "simple");
    case dnnl::primitive::kind::convolution:
      return any("brg", "jit") && std::none_of(arguments.begin(), arguments.end(), [](const Argument& a) {
               return a.index == DNNL_ARG_DIFF_WEIGHTS;
             });
    default:
      return false;
  }
#endif
}

// Identifies a layout. Returns "" for one that is not blocked, of which oneDNN does not reveal everything.
std::string text_of(const Desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  if (desc.get_format_kind() != dnnl::memory::format_kind::blocked) return "";
  CacheKey key;
  key.add(desc.get_ndims(), desc.get_data_type(), desc.get_submemory_offset(), desc.get_inner_nblks());
  for (const dnnl::memory::dims& numbers : {desc.get_dims(), desc.get_padded_dims(), desc.get_strides(),
                                            desc.get_inner_blks(), desc.get_inner_idxs()})
    for (const dnnl::memory::dim number : numbers) key.add(number);
#else
  const dnnl_memory_desc_t& d = desc.data;
  if (d.format_kind != dnnl_blocked || d.extra.flags != 0) return "";
  const dnnl_blocking_desc_t& blocks = d.format_desc.blocking;
  CacheKey key;
  key.add(d.ndims, d.data_type, d.offset0, blocks.inner_nblks);
  for (int i = 0; i < d.ndims; ++i) key.add(d.dims[i], d.padded_dims[i], blocks.strides[i]);
  for (int i = 0; i < blocks.inner_nblks; ++i) key.add(blocks.inner_blks[i], blocks.inner_idxs[i]);
#endif
  return key.text();
}

// oneDNN crashes if there is no room for the code that it generates.
void check_room_for_code() {
  constexpr size_t kRoom = size_t{16} << 20;
  // The mapping is writable, though nobody writes to it, so that a limit on data counts it too.
  void* room =
      mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    throw OutOfMemory(
        fmt::format("less than {} MB of address space or data is left (ulimit -v, -d)", kRoom >> 20));
  munmap(room, kRoom);
}

}  // namespace

CacheStats cache_stats() { return cache().stats(); }
void set_cache_capacity(size_t capacity) { cache().set_capacity(capacity); }

const dnnl::engine& engine() {
  static const dnnl::engine e = [] {
    dnnl::set_primitive_cache_capacity(0);  // ours replaces it
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return e;
}

dnnl::memory::data_type type_of(DType dtype) {
  SACCADE_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "[onednn] dtype, got {}, expected f32 or bf16",
                dtype);
  return dtype == DType::kF32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

dnnl::primitive_attr attributes(bool relu, float shift) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post;
  const auto append = [&](dnnl::algorithm function, float alpha, float beta) {
#if DNNL_VERSION_MAJOR >= 3
    post.append_eltwise(function, alpha, beta);
#else
    post.append_eltwise(1, function, alpha, beta);
#endif
  };
  if (relu) append(dnnl::algorithm::eltwise_relu, 0, 0);
  if (shift != 0) append(dnnl::algorithm::eltwise_linear, 1, shift);
  attr.set_post_ops(post);
  return attr;
}

bool may_use(dnnl::cpu_isa instructions) {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto needed = static_cast<unsigned>(instructions);
  return (isa & needed) == needed;
}

bool has_avx512() {
  static const bool has = may_use(dnnl::cpu_isa::avx512_core);
  return has;
}

bool has_avx512_bf16() {
  static const bool has = may_use(dnnl::cpu_isa::avx512_core_bf16);
  return has;
}

Key::Key(int kind) { add(kind, loop_threads()); }

std::shared_ptr<const Compiled> compiled(const Key& key, const std::function<Compiled()>& make) {
  return cache().get(key.text(), [&] {
    check_room_for_code();
    return make();
  });
}

void sum_over_samples(int64_t samples, int64_t positions, Tensor& dw,
                      const std::function<void(int64_t begin, int64_t end, Tensor& dw)>& part) {
  // Adding up costs as much as some positions, and more if the parts leave the cache.
  constexpr int64_t kPositions = 64, kElements = int64_t{1} << 20;
  int64_t parts = std::min<int64_t>({loop_threads(), samples, positions / kPositions});
  if (parts <= 1 || dw.numel() > kElements || dw.dtype() != DType::kF32) return part(0, samples, dw);
  std::vector<Tensor> sums(static_cast<size_t>(parts));
  sums[0] = dw;
  for (size_t i = 1; i < sums.size(); ++i) sums[i] = Tensor::empty(dw.shape(), dw.dtype());
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      part(samples * i / parts, samples * (i + 1) / parts, sums[static_cast<size_t>(i)]);
  });
  parallel_for(dw.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
    float* sum = dw.data<float>();
    for (size_t i = 1; i < sums.size(); ++i) {
      const float* more = sums[i].data<float>();
      for (int64_t e = begin; e < end; ++e) sum[e] += more[e];
    }
  });
}

Compiled::Compiled(const dnnl::primitive_desc_base& pd, dnnl::primitive primitive,
                   const std::vector<Argument>& arguments)
    : primitive_(std::move(primitive)),
      scratch_(pd.scratchpad_desc()),
      independent_(is_independent(pd, arguments)) {
  for (const Argument& a : arguments) {
    Slot slot{a, pd.query_md(dnnl::query::exec_arg_md, a.index), {}, {}, false, {}};
    if (slot.wanted != a.desc) {
      dnnl::reorder::primitive_desc r(engine(), a.output ? slot.wanted : a.desc, engine(),
                                      a.output ? a.desc : slot.wanted, attributes());
      slot.reorder = dnnl::reorder(r);
      slot.reorder_scratch = r.scratchpad_desc();
      slot.reorder_independent = is_independent(r, {});
      const std::string from = text_of(a.desc), to = text_of(slot.wanted);
      if (!from.empty() && !to.empty()) slot.form = "onednn " + from + to;
    }
    slots_.push_back(std::move(slot));
  }
}

void Compiled::run(std::initializer_list<const void*> pointers, const Tensor* weights) const {
  std::unordered_map<int, dnnl::memory> arguments;
  std::vector<Tensor> temporaries(slots_.size());
  auto pointer = pointers.begin();
  for (size_t i = 0; i < slots_.size(); ++i, ++pointer) {
    const Slot& s = slots_[i];
    dnnl::memory user = memory_of(s.argument.desc, *pointer);
    if (!s.reorder) {
      arguments[s.argument.index] = user;
      continue;
    }
    const auto reordered = [&] {
      Tensor to = temporary(s.wanted);
      if (!s.argument.output)
        execute(s.reorder, {{DNNL_ARG_FROM, user}, {DNNL_ARG_TO, memory_of(s.wanted, to.raw())}},
                s.reorder_scratch, s.reorder_independent);
      return to;
    };
    const bool may_keep = weights && s.argument.index == DNNL_ARG_WEIGHTS && !s.form.empty();
    temporaries[i] = may_keep ? prepared(*weights, s.form, reordered) : reordered();
    arguments[s.argument.index] = memory_of(s.wanted, temporaries[i].raw());
  }
  execute(primitive_, arguments, scratch_, independent_);
  pointer = pointers.begin();
  for (size_t i = 0; i < slots_.size(); ++i, ++pointer) {
    const Slot& s = slots_[i];
    if (!s.reorder || !s.argument.output) continue;
    dnnl::memory own = memory_of(s.wanted, temporaries[i].raw());
    execute(s.reorder, {{DNNL_ARG_FROM, own}, {DNNL_ARG_TO, memory_of(s.argument.desc, *pointer)}},
            s.reorder_scratch, s.reorder_independent);
  }
}

}  // namespace saccade::onednn
