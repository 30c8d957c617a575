#include "layers/attention.h"

#include <fmt/ranges.h>

#include <map>

namespace saccade {
namespace {

std::map<std::string, AttentionSpec>& registry() {
  static std::map<std::string, AttentionSpec> specs;
  return specs;
}

}  // namespace

bool register_attention(AttentionSpec spec) {
  auto [it, is_new] = registry().try_emplace(spec.name, spec);
  SACCADE_CHECK(is_new, "[attention] \"{}\" is registered by {} and by {}", spec.name, it->second.file,
                spec.file);
  return true;
}

std::vector<std::string> attention_names() {
  std::vector<std::string> names;
  for (const auto& [name, spec] : registry()) names.push_back(name);
  return names;
}

const AttentionSpec& attention_spec(const std::string& name) {
  auto it = registry().find(name);
  if (it == registry().end())
    fail_input("attention layer \"{}\" is not known, expected one of {}", name,
               fmt::join(attention_names(), ", "));
  return it->second;
}

std::shared_ptr<Attention> make_attention(const Args& section, const std::string& fallback,
                                          const AttentionShape& shape) {
  const AttentionSpec& spec = attention_spec(section.get_string("type", fallback));
  auto layer = spec.make(shape, section);
  section.finish();
  return layer;
}

}  // namespace saccade
