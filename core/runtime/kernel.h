// Kernel: one raw operation on tensors with one implementation per device and, where speed requires it, a
// second, tuned one. A kernel header declares it; implementations register themselves from their own
// translation unit:
//
//   // core/kernels/gelu/gelu.h
//   inline Kernel<void(const Tensor& x, Tensor& y)> gelu_forward{"gelu_forward"};
//   // core/kernels/gelu/gelu.cpp, compiled by g++ for the CPU and by nvcc for the GPU (single source)
//   SACCADE_REGISTER_KERNEL(gelu_forward, &gelu_forward_generic);
//   // core/kernels/gelu/gelu_cpu.cpp, only where a tuned one pays
//   SACCADE_REGISTER_TUNED_KERNEL(gelu_forward, Device::kCpu, &gelu_forward_cpu, &takes_f32_or_bf16);
//
// Calling the object selects the device of the first defined tensor argument. It runs the tuned
// implementation if there is one and its predicate, if any, accepts the arguments. .generic(...) calls the
// single-source implementation, which stays as the reference. The caller allocates the outputs; every element
// of them is written. The call fails unless all tensors are on one device.
#pragma once

#include <array>
#include <string_view>

#include "core/tensor/execution.h"
#include "core/tensor/hd.h"
#include "core/tensor/integers.h"
#include "core/tensor/tensor.h"

namespace saccade {

// Returns whether every defined tensor among a kernel's arguments meets the condition.
template <class Condition, class... A>
bool every_tensor(const Condition& condition, const A&... args) {
  auto meets = [&]<class T>(const T& arg) {
    if constexpr (std::is_same_v<T, Tensor>) return !arg.defined() || condition(arg);
    return true;
  };
  return (meets(args) && ...);
}

template <class Signature>
class Kernel;

template <class... A>
class Kernel<void(A...)> {
 public:
  using Function = void (*)(A...);
  using Predicate = bool (*)(const std::remove_reference_t<A>&...);

  constexpr explicit Kernel(const char* name) : name_(name) {}

  void operator()(A... args) const {
    size_t d = device_of(args...);
    bool tuned = tuned_[d] && !execution().generic_kernels && (!supports_[d] || supports_[d](args...));
    Function f = tuned ? tuned_[d] : generic_[d];
    SACCADE_CHECK(f != nullptr, "[{}] has no kernel for device {}", name_, name_of(static_cast<Device>(d)));
    f(std::forward<A>(args)...);
  }
  void generic(A... args) const {
    size_t d = device_of(args...);
    SACCADE_CHECK(generic_[d] != nullptr, "[{}] has no generic kernel for device {}", name_,
                  name_of(static_cast<Device>(d)));
    generic_[d](std::forward<A>(args)...);
  }
  std::string_view name() const { return name_; }
  void set_generic(Device device, Function f) { generic_[static_cast<size_t>(device)] = f; }
  void set_tuned(Device device, Function f, Predicate supports = nullptr) {
    tuned_[static_cast<size_t>(device)] = f;
    supports_[static_cast<size_t>(device)] = supports;
  }

 private:
  size_t device_of(const A&... args) const {
    const size_t d = device_index(args...);
    SACCADE_CHECK(
        every_tensor([d](const Tensor& t) { return static_cast<size_t>(t.device()) == d; }, args...),
        "[{}] got tensors on cpu and on cuda, expected all on one device", name_);
    return d;
  }
  template <class First, class... Rest>
  static size_t device_index(const First& first, const Rest&... rest) {
    if constexpr (std::is_same_v<std::decay_t<First>, Tensor>) {
      if (first.defined()) return static_cast<size_t>(first.device());
    }
    if constexpr (sizeof...(Rest) > 0) {
      return device_index(rest...);
    } else {
      return 0;
    }
  }

  const char* name_;
  std::array<Function, kDeviceCount> generic_{};
  std::array<Function, kDeviceCount> tuned_{};
  std::array<Predicate, kDeviceCount> supports_{};
};

// Returns the elements of an optional tensor from `offset` on, or null if it is undefined.
template <class T>
T* data_or_null(Tensor& t, int64_t offset = 0) {
  return t.defined() ? t.data<T>() + offset : nullptr;
}
template <class T>
const T* data_or_null(const Tensor& t, int64_t offset = 0) {
  return t.defined() ? t.data<T>() + offset : nullptr;
}

// Building blocks of predicates:
template <class... A>
bool none_empty(const A&... args) {
  return every_tensor([](const Tensor& t) { return t.numel() > 0; }, args...);
}
// Whether the first tensor is f32 or bf16 and not empty:
template <class... A>
bool takes_f32_or_bf16(const Tensor& x, const A&...) {
  return (x.dtype() == DType::kF32 || x.dtype() == DType::kBF16) && x.numel() > 0;
}
// ... and no tensor is empty:
template <class... A>
bool takes_full_f32_or_bf16(const Tensor& x, const A&... others) {
  return takes_f32_or_bf16(x) && none_empty(x, others...);
}
// ... and each has fewer than INT32_MAX elements:
template <class... A>
bool takes_small_f32_or_bf16(const Tensor& x, const A&... others) {
  auto small = [](const Tensor& t) { return t.numel() < INT32_MAX; };
  return takes_full_f32_or_bf16(x, others...) && every_tensor(small, x, others...);
}

inline namespace SACCADE_SIDE {
#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
inline constexpr Device kCompiledDevice = Device::kCuda;
#else
inline constexpr Device kCompiledDevice = Device::kCpu;
#endif
}  // namespace SACCADE_SIDE

#define SACCADE_REGISTER_KERNEL(kernel, function)          \
  [[maybe_unused]] static const bool kernel##_registered = \
      ((kernel).set_generic(kCompiledDevice, function), true)
// The function and, optionally, its predicate.
#define SACCADE_REGISTER_TUNED_KERNEL(kernel, device, ...) \
  [[maybe_unused]] static const bool kernel##_tuned = ((kernel).set_tuned(device, __VA_ARGS__), true)

}  // namespace saccade
