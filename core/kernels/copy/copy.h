// Filling, copying and casting.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// Sets every element of y (any strides, any dtype) to value.
inline Kernel<void(Tensor& y, double value)> fill{"fill"};
// y[i] = x[i] with a cast; both of one shape and device, any strides.
inline Kernel<void(const Tensor& x, Tensor& y)> copy{"copy"};
// y = x from `begin` on along the axis and 0 before and after it, with one dtype; y is contiguous.
inline Kernel<void(const Tensor& x, int axis, int64_t begin, Tensor& y)> copy_into_zeros{"copy_into_zeros"};
// y = xs one after the other along the axis, with one dtype and device; y is contiguous.
inline Kernel<void(std::span<const Tensor> xs, int axis, Tensor& y)> join{"join"};
// x and *y are contiguous, of one shape and dtype, on different devices (hence the pointer: the tensors of a
// kernel must be on one). Afterwards x may change, and y is valid for later work on its device: on the CPU
// the copy is complete, on the GPU it is under way.
inline Kernel<void(const Tensor& x, Tensor* y)> copy_between_devices{"copy_between_devices"};

// The same from the CPU to a GPU that may still be busy: the copy overlaps with its earlier work. For data
// that comes with every batch; its staging memory is kept.
inline Kernel<void(const Tensor& x, Tensor* y)> start_upload{"start_upload"};

// Copies xs[i] (f32) to the elements of block (f32, contiguous) from begins[i] on; others are unchanged.
inline Kernel<void(Tensor& block, std::span<const Tensor> xs, std::span<const int64_t> begins)> copy_parts{
    "copy_parts"};
// out[i] = scalars[i], which have one element each; all f32 on one device.
inline Kernel<void(Tensor& out, std::span<const Tensor> scalars)> stack_scalars{"stack_scalars"};

}  // namespace saccade::kernels
