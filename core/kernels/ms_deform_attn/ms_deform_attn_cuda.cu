// Deformable attention in f32 and bf16 with the kernels of sample_gather_cuda.h and sample_scatter_cuda.h.
#include "core/kernels/common/sample_gather_cuda.h"
#include "core/kernels/common/sample_scatter_cuda.h"
#include "core/kernels/ms_deform_attn/ms_deform_levels_cuda.h"
#include "core/kernels/ms_deform_attn/ms_deform_source.h"

namespace saccade::kernels {
namespace {

using Source = MsDeformSource<float, cuda::LaneAccess>;
// The Source of the backward kernels for this many levels; 0: that for any shape.
template <int kLevels>
struct SourceOf {
  using Type = cuda::LevelSource<kLevels>;
};
template <>
struct SourceOf<0> {
  using Type = Source;
};

// Calls f<kLevels>() with the number of levels if the kernels of ms_deform_levels_cuda.h support the shape,
// otherwise with 0.
template <class F>
void with_levels(const SampleShape& s, const Tensor& reference, const Tensor& offsets,
                 std::initializer_list<const void*> wide, const F& f) {
  if (!cuda::levels_fit(s, static_cast<int>(offsets.dim(4)), reference.raw(), wide))
    return f.template operator()<0>();
  s.levels.count == 3 ? f.template operator()<3>() : f.template operator()<4>();
}

void forward_cuda(const Tensor& value, const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                  const FeatureLevels& levels, Tensor& y) {
  SampleShape s = shape_of_samples(value, offsets, levels);
  std::initializer_list<const void*> wide = {value.raw(), offsets.raw(), logits.raw(), y.raw()};
  dispatch_dtype<float, bf16>(value.dtype(), "ms_deform_attn", [&]<class T>() {
    with_levels(s, reference, offsets, wide, [&]<int kLevels>() {
      if constexpr (kLevels > 0)
        cuda::launch_levels<T, kLevels>({reference, offsets, logits}, s, value, y);
      else
        cuda::launch_gather<T>(Source(reference, offsets, logits), s, value, y);
    });
  });
}

void backward_cuda(const Tensor& value, const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                   const FeatureLevels& levels, const Tensor& dy, Tensor& dvalue, Tensor& dreference,
                   Tensor& doffsets, Tensor& dlogits) {
  SampleShape s = shape_of_samples(value, offsets, levels);
  auto raw = [](const Tensor& t) { return t.defined() ? t.raw() : nullptr; };
  std::initializer_list<const void*> wide = {
      value.raw(),   offsets.raw(), logits.raw(), dy.raw(),
      raw(doffsets), raw(dlogits),  raw(dvalue)};  // dvalue is the target of float atomics
  dispatch_dtype<float, bf16>(value.dtype(), "ms_deform_attn", [&]<class T>() {
    with_levels(s, reference, offsets, wide, [&]<int kLevels>() {
      typename SourceOf<kLevels>::Type source(reference, offsets, logits);
      with_reference_gradient(
          source, s, dreference, doffsets, dlogits, [&](const auto& gradients, bool wanted) {
            cuda::samples_backward<T>(source, wanted, s, dy, dvalue, [&](Tensor& unordered) {
              if constexpr (kLevels > 0)
                cuda::launch_level_gradients<T, kLevels>(source, gradients, s, value, dy, unordered);
              else
                cuda::launch_point_gradients<T>(source, gradients, s, value, dy, unordered);
            });
          });
    });
  });
}

// `result` is y or dy.
bool points_fit(const Tensor& value, const Tensor& offsets, const FeatureLevels& levels,
                const Tensor& result) {
  return result.numel() > 0 && value.dtype() != DType::kF64 && cuda::packs_fit<2>(offsets.data<float>(), 0) &&
         cuda::indices_fit(offsets.dim(0), offsets.dim(1), offsets.dim(2), value.dim(3),
                           levels.size() * offsets.dim(4), levels.tokens());
}
bool forward_supported(const Tensor& value, const Tensor&, const Tensor& offsets, const Tensor&,
                       const FeatureLevels& levels, const Tensor& y) {
  return points_fit(value, offsets, levels, y);
}
bool backward_supported(const Tensor& value, const Tensor&, const Tensor& offsets, const Tensor&,
                        const FeatureLevels& levels, const Tensor& dy, const Tensor&, const Tensor&,
                        const Tensor&, const Tensor&) {
  return points_fit(value, offsets, levels, dy) &&
         cuda::scatter_fits(shape_of_samples(value, offsets, levels));
}

SACCADE_REGISTER_TUNED_KERNEL(ms_deform_attn_forward, Device::kCuda, &forward_cuda, &forward_supported);
SACCADE_REGISTER_TUNED_KERNEL(ms_deform_attn_backward, Device::kCuda, &backward_cuda, &backward_supported);

}  // namespace
}  // namespace saccade::kernels
