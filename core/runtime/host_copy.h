// Copies of numbers to the host that start at once and are only waited for when somebody reads them.
#pragma once

#include <memory>

#include "core/runtime/kernel.h"

namespace saccade {

// A running copy of one backend.
class HostTransfer {
 public:
  virtual ~HostTransfer() = default;
  // Returns the numbers. The host waits (and counts it) only if they have not arrived.
  virtual void* wait() = 0;
};

namespace kernels {
// Starts the copy of a contiguous tensor on a device other than the CPU.
inline Kernel<void(const Tensor& x, std::shared_ptr<HostTransfer>& transfer)> start_host_copy{
    "start_host_copy"};
}  // namespace kernels

class HostCopy {
 public:
  HostCopy() = default;  // undefined
  // On the CPU this keeps the tensor itself, which must not change before it is read.
  explicit HostCopy(const Tensor& x) : numel_(x.numel()), dtype_(x.dtype()) {
    if (x.device() == Device::kCpu)
      tensor_ = x.contiguous();
    else
      kernels::start_host_copy(x.contiguous(), transfer_);
  }
  bool defined() const { return tensor_.defined() || transfer_ != nullptr; }
  int64_t numel() const { return numel_; }
  template <class T>
  T* data() const {
    SACCADE_CHECK(defined() && dtype_of<T> == dtype_, "[host copy] data<{}>() of a copy of {}",
                  name_of(dtype_of<T>), defined() ? name_of(dtype_) : "nothing");
    return static_cast<T*>(transfer_ ? transfer_->wait() : tensor_.raw());
  }

 private:
  Tensor tensor_;
  std::shared_ptr<HostTransfer> transfer_;
  int64_t numel_ = 0;
  DType dtype_ = DType::kF32;
};

}  // namespace saccade
