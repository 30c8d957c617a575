// cuDNN 9, opened when it is first needed, through its backend API: descriptors with typed attributes.
#pragma once

#include <span>
#include <vector>

#include "core/runtime/cuda/api.h"
#include "core/runtime/cuda/libraries/cudnn_api.h"

namespace saccade::cuda {

// The library's functions under their own names.
struct CudnnApi {
#define F(name) decltype(&::name) name;
  SACCADE_CUDNN_FUNCTIONS(F)
#undef F
};

// Throws Error with a one-line message if cuDNN is missing or too old.
const CudnnApi& cudnn();
// The handle on our stream. Throws Error if no GPU can be used.
cudnnHandle_t cudnn_handle();
// Throws Error naming the call, cuDNN's status and its reason.
void check(cudnnStatus_t status, const char* call);

// A descriptor of the backend API: set attributes, then finalize(). Does not own the descriptors to which it
// refers; cuDNN copies what it needs of them.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type) {
    check(cudnn().cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
  }
  ~CudnnDescriptor() {
    if (descriptor_) cudnn().cudnnBackendDestroyDescriptor(descriptor_);
  }
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  template <class T>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       std::span<const T> values) {
    check(cudnn().cudnnBackendSetAttribute(descriptor_, name, type, static_cast<int64_t>(values.size()),
                                           values.data()),
          "cudnnBackendSetAttribute");
    return *this;
  }
  template <class T>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T value) {
    return set(name, type, std::span<const T>(&value, 1));
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, std::initializer_list<int64_t> values) {
    return set(name, CUDNN_TYPE_INT64, std::span<const int64_t>(values.begin(), values.size()));
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
  }
  CudnnDescriptor& finalize() {
    check(try_finalize(), "cudnnBackendFinalize");
    return *this;
  }
  // For configurations that cuDNN may not support.
  cudnnStatus_t try_finalize() { return cudnn().cudnnBackendFinalize(descriptor_); }

  // Returns at most `room` values of an attribute.
  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        int64_t room) const {
    std::vector<T> out(static_cast<size_t>(room));
    int64_t count = 0;
    check(cudnn().cudnnBackendGetAttribute(descriptor_, name, type, room, &count, out.data()),
          "cudnnBackendGetAttribute");
    out.resize(static_cast<size_t>(std::min(count, room)));
    return out;
  }
  // Fills descriptors that the caller made and returns how many cuDNN has in all.
  int64_t get_into(cudnnBackendAttributeName_t name, std::span<cudnnBackendDescriptor_t> out) const {
    int64_t count = 0;
    check(cudnn().cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                           static_cast<int64_t>(out.size()), &count,
                                           out.empty() ? nullptr : out.data()),
          "cudnnBackendGetAttribute");
    return count;
  }
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace saccade::cuda
