#include "layers/attention.h"

namespace saccade {

Registry<AttentionSpec>& attention_layers() {
  static Registry<AttentionSpec> registry("attention layer");
  return registry;
}

const AttentionSpec& attention_spec(const Args& section, const std::string& fallback) {
  return attention_layers().find(section.get_string("type", fallback));
}

std::shared_ptr<Attention> make_attention(const Args& section, const std::string& fallback,
                                          const AttentionShape& shape) {
  const AttentionSpec& spec = attention_spec(section, fallback);
  if (shape.dim % shape.heads != 0)
    fail_input("attention: dimension {} does not split into {} heads", shape.dim, shape.heads);
  auto layer = spec.make(shape, section);
  section.finish();
  return layer;
}

}  // namespace saccade
