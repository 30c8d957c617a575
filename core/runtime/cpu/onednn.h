// A front end to oneDNN that the CPU's products and convolutions share: an engine, a bounded cache of
// compiled primitives, and execution with scratch memory from our allocator.
//
//   auto op = onednn::compiled(key, [&] { ...; return Compiled(pd, primitive, {{DNNL_ARG_SRC, desc}, ...});
//   });
//   op->run({x.raw(), ...});   // pointers in the order of the argument list
//
// A primitive may prefer another memory layout than the caller's (such as blocked weights): Compiled then
// reorders inputs before and outputs after, through temporaries.
#pragma once

#include <dnnl.hpp>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "core/runtime/cpu/primitive_cache.h"
#include "core/runtime/kernel.h"
#include "core/tensor/tensor.h"

namespace saccade::onednn {

using Desc = dnnl::memory::desc;

const dnnl::engine& engine();
dnnl::memory::data_type type_of(DType dtype);  // f32 or bf16; throws otherwise
// The attributes of every primitive here: the scratch memory is ours; `relu` applies ReLU to the result, and
// then `shift` is added.
dnnl::primitive_attr attributes(bool relu = false, float shift = 0);
// Returns whether oneDNN may use AVX-512 (ONEDNN_MAX_CPU_ISA=AVX2 forbids it). Only then does it compute in
// bf16 and use its fastest products (see core/kernels/matmul/routes_cpu.h).
bool has_avx512();
// Returns whether oneDNN may also use the bf16 instructions.
bool has_avx512_bf16();
// Returns the descriptor of a primitive; a gradient also passes the `forward` descriptor. oneDNN 2 wanted the
// arguments in one object, oneDNN 3 takes them one by one.
template <class Primitive, class... A>
typename Primitive::primitive_desc described(const dnnl::primitive_attr& attr, const A&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), arguments..., attr};
#else
  return {typename Primitive::desc(arguments...), attr, engine()};
#endif
}
template <class Primitive, class Forward, class... A>
typename Primitive::primitive_desc described_gradient(const Forward& forward, const A&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), arguments..., forward, attributes()};
#else
  return {typename Primitive::desc(arguments...), attributes(), engine(), forward};
#endif
}

struct Argument {
  int index;  // DNNL_ARG_...
  Desc desc;  // the caller's layout
  bool output = false;
};

// A primitive with all that its execution needs. Immutable, so any number of threads may run it at once.
class Compiled {
 public:
  Compiled(const dnnl::primitive_desc_base& pd, dnnl::primitive primitive,
           const std::vector<Argument>& arguments);
  // Takes one pointer per argument and ignores any more. For `weights`, the tensor of DNNL_ARG_WEIGHTS, the
  // primitive's layout may be kept (core/tensor/prepared.h).
  void run(std::initializer_list<const void*> pointers, const Tensor* weights = nullptr) const;

 private:
  struct Slot {
    Argument argument;
    Desc wanted;              // the primitive's layout
    dnnl::primitive reorder;  // empty if the layouts are equal
    Desc reorder_scratch;
    bool reorder_independent = false;
    std::string form;  // names both layouts
  };
  dnnl::primitive primitive_;
  Desc scratch_;
  bool independent_;
  std::vector<Slot> slots_;
};

// Everything on which a primitive depends; the thread count is added automatically.
class Key : public CacheKey {
 public:
  explicit Key(int kind);
};

enum Kind : int { kMatmul, kConvForward, kConvBackwardData, kConvBackwardWeight, kLinearBackwardWeight };

std::shared_ptr<const Compiled> compiled(const Key& key, const std::function<Compiled()>& make);

// Computes the gradient of weights, in f32, as a sum over samples with `positions` positions in all:
// part(begin, end, dw) writes the sum of some samples. Each thread computes its own sum with single-threaded
// primitives, and the sums are added in order. oneDNN would divide the work in the same way, but its threads
// busy-wait for each other, so that alongside another program half of the time is spent waiting.
void sum_over_samples(int64_t samples, int64_t positions, Tensor& dw,
                      const std::function<void(int64_t begin, int64_t end, Tensor& dw)>& part);

}  // namespace saccade::onednn
