// Registry: the choices that a configuration can name. Every kind of thing has one registry, behind a
// function, so that entries can register themselves from their own translation units before main:
//
//   inline Registry<BackboneSpec>& backbones() { return registry_of<BackboneSpec>("backbone"); }
//   static const bool registered = backbones().add({.name = "swin", ...});
#pragma once

#include <fmt/ranges.h>

#include <map>
#include <source_location>
#include <string>
#include <vector>

#include "core/tensor/error.h"

namespace saccade {

// Spec has the members `name` and `file` (where it is registered; by default the caller of add).
template <class Spec>
class Registry {
 public:
  explicit Registry(std::string what) : what_(std::move(what)) {}

  // Throws Error if the name is taken. Returns true, for use in initialisers.
  bool add(Spec spec, const std::source_location& where = std::source_location::current()) {
    if (spec.file.empty()) spec.file = where.file_name();
    auto [it, is_new] = specs_.try_emplace(spec.name, spec);
    SACCADE_CHECK(is_new, "{} \"{}\" is registered by {} and by {}", what_, spec.name, it->second.file,
                  spec.file);
    return true;
  }
  bool contains(const std::string& name) const { return specs_.contains(name); }
  // Throws InputError for an unknown name and lists the known ones; `where` (a field, a flag) begins the
  // message, which names the kind of thing unless `where` ends with it ("--evaluator").
  const Spec& find(const std::string& name, const std::string& where = "") const {
    auto it = specs_.find(name);
    if (it == specs_.end())
      fail_input("{}{}{}\"{}\" is not known, expected {}{}", where, where.empty() ? "" : ": ",
                 !where.empty() && where.ends_with(what_) ? "" : what_ + " ", shortened(name),
                 specs_.size() == 1 ? "" : "one of ", fmt::join(names(), ", "));
    return it->second;
  }
  // All entries, by name.
  const std::map<std::string, Spec>& all() const { return specs_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, spec] : specs_) names.push_back(name);
    return names;
  }

 private:
  std::string what_;
  std::map<std::string, Spec> specs_;
};

// Returns the one registry of such entries. what: how messages call one, such as "attention layer".
template <class Spec>
Registry<Spec>& registry_of(const char* what) {
  static Registry<Spec> registry(what);
  return registry;
}

}  // namespace saccade
