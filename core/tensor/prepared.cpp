#include "core/tensor/prepared.h"

#include <utility>

#include "core/tensor/execution.h"

namespace saccade {

void PreparedForms::forget_others(uint32_t version) {
  if (version == version_) return;
  made_.clear();
  version_ = version;
}

Tensor PreparedForms::find(const std::string& key, uint32_t version) {
  std::lock_guard lock(mutex_);
  forget_others(version);
  const auto it = made_.find(key);
  return it == made_.end() ? Tensor() : it->second;
}

Tensor PreparedForms::keep(const std::string& key, uint32_t version, const Tensor& made) {
  std::lock_guard lock(mutex_);
  forget_others(version);
  return made_.try_emplace(key, made).first->second;
}

namespace {

// The key includes the offset in the storage, since several weights may share one.
std::string form_key(const Tensor& t, const std::string& form) {
  const auto offset = static_cast<const char*>(t.raw()) - static_cast<const char*>(t.storage()->data());
  return std::to_string(offset) + ' ' + form;
}

}  // namespace

void keep_forms(const Tensor& t) {
  if (t.defined() && !keeps_forms(t)) t.storage()->prepared = std::make_unique<PreparedForms>();
}

void drop_forms(const Tensor& t) {
  if (t.defined() && keeps_forms(t)) t.storage()->prepared.reset();  // no write where others only read
}

bool keeps_forms(const Tensor& t) { return t.storage()->prepared != nullptr; }

Tensor kept_form(const Tensor& t, const std::string& form) {
  return keeps_forms(t) ? t.storage()->prepared->find(form_key(t, form), t.storage()->version()) : Tensor();
}

Tensor detail::prepared(const Tensor& t, const std::string& form, Tensor (*make)(const void*),
                        const void* context) {
  if (!keeps_forms(t)) return make(context);
  PreparedForms& forms = *t.storage()->prepared;
  const uint32_t version = t.storage()->version();
  const std::string key = form_key(t, form);
  if (Tensor kept = forms.find(key, version); kept.defined()) return kept;
  MemoryUseScope use(MemoryUse::kParameters);
  return forms.keep(key, version, make(context));
}

}  // namespace saccade
