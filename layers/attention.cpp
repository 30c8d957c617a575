#include "layers/attention.h"

namespace saccade {

Registry<AttentionSpec>& attention_layers() {
  static Registry<AttentionSpec> registry("attention layer");
  return registry;
}

std::shared_ptr<Attention> make_attention(const Args& section, const std::string& fallback,
                                          const AttentionShape& shape) {
  const AttentionSpec& spec = attention_layers().find(section.get_string("type", fallback));
  auto layer = spec.make(shape, section);
  section.finish();
  return layer;
}

}  // namespace saccade
