// Tensor: a strided, typed view of shared storage on one device. It has no autograd history (see
// autograd/var.h). Copying a Tensor shares the storage; views never copy. Kernels take contiguous tensors
// unless they say otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/tensor/allocator.h"
#include "core/tensor/device.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace saccade {

class Storage;
class PreparedForms;  // core/tensor/prepared.h

// See core/kernels/bf16_shadow/bf16_shadow.h.
struct Bf16Shadow {
  std::shared_ptr<Storage> storage;  // null until the first use
  uint32_t version = 0;              // version of the parameters when it was made
};

// Owns a block of memory on one device.
class Storage {
 public:
  Storage(size_t bytes, Device device);
  ~Storage();
  Storage& operator=(Storage&&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  // Counts in-place changes after creation, so that autograd can detect that a saved tensor was changed.
  uint32_t version() const { return version_; }
  void bump_version() { ++version_; }

  std::unique_ptr<Bf16Shadow> bf16_shadow;  // for keep_bf16_shadow()
  std::unique_ptr<PreparedForms> prepared;  // for keep_forms()

 private:
  void* data_;
  size_t bytes_;
  Device device_;
  uint32_t version_ = 0;
};

class Tensor {
 public:
  Tensor() = default;  // undefined: defined() is false

  static Tensor empty(const Shape& shape, DType dtype = DType::kF32, Device device = Device::kCpu);
  static Tensor zeros(const Shape& shape, DType dtype = DType::kF32, Device device = Device::kCpu);
  static Tensor full(const Shape& shape, double value, DType dtype = DType::kF32,
                     Device device = Device::kCpu);
  static Tensor scalar(double value, DType dtype = DType::kF32, Device device = Device::kCpu);
  // Copies host values; their count must equal shape.numel().
  template <class T>
  static Tensor from(const Shape& shape, std::span<const T> values, Device device = Device::kCpu) {
    return from_bytes(shape, dtype_of<T>, values.data(), values.size(), device);
  }
  template <class T>
  static Tensor from(const Shape& shape, const std::vector<T>& values, Device device = Device::kCpu) {
    return from_bytes(shape, dtype_of<T>, values.data(), values.size(), device);
  }
  Tensor empty_like() const { return empty(shape_, dtype_, device()); }
  Tensor zeros_like() const { return zeros(shape_, dtype_, device()); }

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_ ? storage_->device() : Device::kCpu; }
  size_t bytes() const { return static_cast<size_t>(numel()) * size_of(dtype_); }
  bool is_contiguous() const;

  // Returns a typed pointer to the first element. Throws if T is not the dtype.
  template <class T>
  T* data() {
    check_dtype(dtype_of<T>);
    return static_cast<T*>(raw());
  }
  template <class T>
  const T* data() const {
    check_dtype(dtype_of<T>);
    return static_cast<const T*>(raw());
  }
  void* raw() const;  // untyped pointer to the first element
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  bool unique() const { return storage_.use_count() == 1; }

  // Views. One size of reshape may be -1. reshape copies only if the strides do not allow a view.
  Tensor reshape(const Shape& shape) const;
  Tensor permute(std::span<const int> axes) const;
  Tensor permute(std::initializer_list<int> axes) const {
    return permute(std::span<const int>(axes.begin(), axes.size()));
  }
  Tensor transpose(int a, int b) const;
  Tensor slice(int axis, int64_t begin, int64_t end) const;  // [begin, end)
  Tensor select(int axis, int64_t index) const;              // drops the axis
  Tensor expand(const Shape& shape) const;                   // broadcasts size-1 axes with stride 0
  Tensor unsqueeze(int axis) const;
  Tensor squeeze(int axis) const;
  // Returns the same part of another storage that has as many elements.
  Tensor view_of(std::shared_ptr<Storage> storage, DType dtype) const;

  // Copies.
  Tensor contiguous() const;       // itself if already contiguous
  Tensor clone() const;            // always a fresh, contiguous copy
  Tensor to(DType dtype) const;    // itself if the dtype is the same; f32 -> bf16 rounds to nearest even
  Tensor to(Device device) const;  // itself if already there

  // These work in place and bump the storage's version.
  void fill(double value);
  void copy_from(const Tensor& src);  // broadcasts src to this shape, casts, and respects the strides of both
  void bump_version() { storage_->bump_version(); }

  // Copies to the host, for tests, logs and files.
  double item() const;  // numel() must be 1
  template <class T>
  std::vector<T> to_vector() const {
    Tensor t = to(dtype_of<T>).to(Device::kCpu).contiguous();
    const T* p = t.data<T>();
    return std::vector<T>(p, p + t.numel());
  }

 private:
  static Tensor from_bytes(const Shape& shape, DType dtype, const void* values, size_t count, Device device);
  void check_dtype(DType dtype) const;

  std::shared_ptr<Storage> storage_;
  int64_t offset_ = 0;  // in elements
  Shape shape_;
  Shape strides_;  // in elements
  DType dtype_ = DType::kF32;
};

}  // namespace saccade
