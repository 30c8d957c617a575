// Forms of weights that kernels derive before they compute, such as packed for a product or transformed for
// Winograd's algorithm. A model in inference keeps them with the storage of its weights until the weights
// change or are freed; in training, where every step changes the weights, each call makes them anew.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "core/tensor/tensor.h"

namespace saccade {

// The prepared forms that a storage keeps.
class PreparedForms {
 public:
  // Returns an undefined tensor if there is no such form for this version of the storage.
  Tensor find(const std::string& key, uint32_t version);
  // Stores a form and returns it. If two threads made the same form, both get the first one.
  Tensor keep(const std::string& key, uint32_t version, const Tensor& made);

 private:
  void forget_others(uint32_t version);

  std::mutex mutex_;
  uint32_t version_ = 0;
  std::unordered_map<std::string, Tensor> made_;
};

// From now on, forms of t's storage are kept. Every change of such a tensor must bump its version.
void keep_forms(const Tensor& t);
// Stops keeping forms and frees those that were kept.
void drop_forms(const Tensor& t);
bool keeps_forms(const Tensor& t);
// Returns the kept form of t (see prepared()), or an undefined tensor if there is none.
Tensor kept_form(const Tensor& t, const std::string& form);

namespace detail {
Tensor prepared(const Tensor& t, const std::string& form, Tensor (*make)(const void*), const void* context);
}
// Returns a form of t: the kept one, or else the result of make() -> Tensor. Nobody may write to it. `form`
// names everything that it depends on besides the elements of t. t must be contiguous.
template <class Make>
Tensor prepared(const Tensor& t, const std::string& form, const Make& make) {
  return detail::prepared(
      t, form, [](const void* context) { return (*static_cast<const Make*>(context))(); }, &make);
}

}  // namespace saccade
