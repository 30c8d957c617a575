// Forms of weights that kernels make before they compute: packed for a product, transformed for Winograd's
// algorithm. A model that infers keeps them with the storage of its weights until these change or are freed;
// in training, where every step changes the weights, they are made for each call.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "core/tensor/tensor.h"

namespace saccade {

// What a storage keeps.
class PreparedForms {
 public:
  // Undefined: there is none of this version of the storage.
  Tensor find(const std::string& key, uint32_t version);
  // Of two threads that made the same form the first one's is kept, and returned to both.
  Tensor keep(const std::string& key, uint32_t version, Tensor made);

 private:
  void forget_others(uint32_t version);

  std::mutex mutex_;
  uint32_t version_ = 0;
  std::unordered_map<std::string, Tensor> made_;
};

// From now on the forms of what is in t's storage are kept, if it is on the CPU. Every change of such a
// tensor must bump its version.
void keep_forms(const Tensor& t);
// From now on they are not, and those that were are freed.
void drop_forms(const Tensor& t);
bool keeps_forms(const Tensor& t);

namespace detail {
Tensor prepared(const Tensor& t, const std::string& form, Tensor (*make)(const void*), const void* context);
}
// A form of t, from make() -> Tensor unless it is kept; nobody may write it. `form` says all that it depends
// on besides the elements of t, which is contiguous.
template <class Make>
Tensor prepared(const Tensor& t, const std::string& form, const Make& make) {
  return detail::prepared(
      t, form, [](const void* context) { return (*static_cast<const Make*>(context))(); }, &make);
}

}  // namespace saccade
