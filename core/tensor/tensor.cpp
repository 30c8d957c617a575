#include "core/tensor/tensor.h"

#include <cstring>
#include <optional>

#include "core/kernels/copy/copy.h"
#include "core/tensor/prepared.h"

namespace saccade {

Storage::Storage(size_t bytes, Device device)
    : data_(allocator(device).allocate(bytes)), bytes_(bytes), device_(device) {}

Storage::~Storage() { allocator(device_).deallocate(data_, bytes_); }

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  const auto elements = static_cast<size_t>(shape.checked_numel());
  Tensor t;
  t.shape_ = shape;
  t.strides_ = contiguous_strides(shape);
  t.dtype_ = dtype;
  t.storage_ = std::make_shared<Storage>(elements * size_of(dtype), device);
  return t;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0.0, dtype, device);
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  kernels::fill(t, value);
  return t;
}

Tensor Tensor::scalar(double value, DType dtype, Device device) {
  return full(Shape{}, value, dtype, device);
}

Tensor Tensor::from_bytes(const Shape& shape, DType dtype, const void* values, size_t count, Device device) {
  SACCADE_CHECK(static_cast<int64_t>(count) == shape.numel(), "[tensor] {} values for shape {}", count,
                shape);
  Tensor t = empty(shape, dtype, Device::kCpu);
  if (count > 0) std::memcpy(t.raw(), values, t.bytes());
  return t.to(device);
}

bool Tensor::is_contiguous() const {
  int64_t step = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] == 0) return true;
    if (shape_[i] != 1 && strides_[i] != step) return false;
    step *= shape_[i];
  }
  return true;
}

void* Tensor::raw() const {
  SACCADE_CHECK(defined(), "[tensor] undefined tensor has no data");
  return static_cast<char*>(storage_->data()) + static_cast<size_t>(offset_) * size_of(dtype_);
}

void Tensor::check_dtype(DType dtype) const {
  SACCADE_CHECK(dtype == dtype_, "[tensor] data<{}>() of a {} tensor of shape {}", dtype, dtype_, shape_);
}

namespace {

// Returns the strides that show the same elements in the shape `to`, if there are any: axes of `from` that
// are contiguous with each other in memory form one run, and each run must split into axes of `to`.
std::optional<Shape> view_strides(const Shape& from, const Shape& strides, const Shape& to) {
  if (from.numel() == 0 || from.rank() == 0) return contiguous_strides(to);
  Shape result = Shape::filled(to.rank(), 1);
  int axis = to.rank() - 1;
  int64_t run = 1, covered = 1;  // elements of the run, and how many of them axes of `to` cover
  int64_t step = strides[from.rank() - 1];
  for (int i = from.rank() - 1; i >= 0; --i) {
    run *= from[i];
    if (i > 0 && (from[i - 1] == 1 || strides[i - 1] == run * step)) continue;
    for (; axis >= 0 && (covered < run || to[axis] == 1); --axis) {
      result[axis] = covered * step;
      covered *= to[axis];
    }
    if (covered != run) return std::nullopt;
    if (i > 0) step = strides[i - 1];
    run = covered = 1;
  }
  return result;
}

}  // namespace

Tensor Tensor::reshape(const Shape& wanted) const {
  Shape shape = wanted;
  int64_t known = 1;
  int unknown = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != -1) {
      known *= shape[i];
      continue;
    }
    SACCADE_CHECK(unknown == -1, "[reshape] more than one -1 in {}", wanted);
    unknown = i;
  }
  if (unknown >= 0 && known > 0) shape[unknown] = numel() / known;
  if (unknown >= 0 && known == 0) shape[unknown] = 0;
  SACCADE_CHECK(shape.numel() == numel(), "[reshape] {} does not fit {} elements of {}", wanted, numel(),
                shape_);
  std::optional<Shape> strides = view_strides(shape_, strides_, shape);
  Tensor t = strides ? *this : contiguous();
  t.shape_ = shape;
  t.strides_ = strides ? *strides : contiguous_strides(shape);
  return t;
}

Tensor Tensor::permute(std::span<const int> axes) const {
  SACCADE_CHECK(static_cast<int>(axes.size()) == rank(), "[permute] {} axes for shape {}", axes.size(),
                shape_);
  Tensor t = *this;
  unsigned seen = 0;
  for (int i = 0; i < rank(); ++i) {
    int a = shape_.axis(axes[static_cast<size_t>(i)]);
    SACCADE_CHECK((seen & (1u << a)) == 0, "[permute] axis {} twice", a);
    seen |= 1u << a;
    t.shape_[i] = shape_[a];
    t.strides_[i] = strides_[a];
  }
  return t;
}

Tensor Tensor::transpose(int a, int b) const {
  Tensor t = *this;
  std::swap(t.shape_[a], t.shape_[b]);
  std::swap(t.strides_[a], t.strides_[b]);
  return t;
}

Tensor Tensor::slice(int axis, int64_t begin, int64_t end) const {
  axis = shape_.axis(axis);
  SACCADE_CHECK(begin >= 0 && begin <= end && end <= shape_[axis], "[slice] [{}, {}) of axis {} of {}", begin,
                end, axis, shape_);
  Tensor t = *this;
  t.offset_ += begin * strides_[axis];
  t.shape_[axis] = end - begin;
  return t;
}

Tensor Tensor::select(int axis, int64_t index) const { return slice(axis, index, index + 1).squeeze(axis); }

Tensor Tensor::expand(const Shape& shape) const {
  SACCADE_CHECK(shape.rank() >= rank(), "[expand] {} to {}", shape_, shape);
  Tensor t = *this;
  t.shape_ = shape;
  t.strides_ = Shape::filled(shape.rank(), 0);
  for (int i = 1; i <= rank(); ++i) {
    SACCADE_CHECK(shape_[-i] == shape[-i] || shape_[-i] == 1, "[expand] {} to {}", shape_, shape);
    t.strides_[-i] = shape_[-i] == shape[-i] ? strides_[-i] : 0;
  }
  return t;
}

Tensor Tensor::unsqueeze(int axis) const {
  int at = axis < 0 ? axis + rank() + 1 : axis;
  SACCADE_CHECK(at >= 0 && at <= rank(), "[unsqueeze] axis {} of {}", axis, shape_);
  Tensor t = *this;
  t.shape_ = Shape{};
  t.strides_ = Shape{};
  for (int i = 0; i <= rank(); ++i) {
    if (i == at) {
      t.shape_.push_back(1);
      t.strides_.push_back(i < rank() ? shape_[i] * strides_[i] : 1);
    }
    if (i < rank()) {
      t.shape_.push_back(shape_[i]);
      t.strides_.push_back(strides_[i]);
    }
  }
  return t;
}

Tensor Tensor::squeeze(int axis) const {
  axis = shape_.axis(axis);
  SACCADE_CHECK(shape_[axis] == 1, "[squeeze] axis {} of {}", axis, shape_);
  Tensor t = *this;
  t.shape_ = Shape{};
  t.strides_ = Shape{};
  for (int i = 0; i < rank(); ++i) {
    if (i == axis) continue;
    t.shape_.push_back(shape_[i]);
    t.strides_.push_back(strides_[i]);
  }
  return t;
}

Tensor Tensor::view_of(std::shared_ptr<Storage> storage, DType dtype) const {
  Tensor t = *this;
  t.storage_ = std::move(storage);
  t.dtype_ = dtype;
  return t;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  Tensor t = empty_like();
  kernels::copy(*this, t);
  return t;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor t = empty(shape_, dtype, device());
  kernels::copy(*this, t);
  return t;
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  Tensor src = contiguous();
  Tensor t = empty(shape_, dtype_, device);
  kernels::copy_between_devices(src, &t);
  return t;
}

void Tensor::fill(double value) {
  kernels::fill(*this, value);
  bump_version();
}

void Tensor::copy_from(const Tensor& src) {
  kernels::copy(src.expand(shape_).to(device()), *this);
  bump_version();
}

double Tensor::item() const {
  SACCADE_CHECK(numel() == 1, "[item] needs one element, got shape {}", shape_);
  return to(Device::kCpu).to(DType::kF64).contiguous().data<double>()[0];
}

}  // namespace saccade
