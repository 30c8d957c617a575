#include "layers/attention.h"

namespace saccade {

Registry<AttentionSpec>& attention_layers() {
  static Registry<AttentionSpec> registry("attention layer");
  return registry;
}

const AttentionSpec& attention_spec(const Args& section, const std::string& fallback) {
  return attention_layers().find(section.get_string("type", fallback), section.path() + ".type");
}

std::shared_ptr<Attention> make_attention(const Args& section, const std::string& fallback,
                                          const AttentionShape& shape) {
  const AttentionSpec& spec = attention_spec(section, fallback);
  if (shape.dim % shape.heads != 0)
    fail_input("attention: dimension {} does not split into {} heads", shape.dim, shape.heads);
  if (spec.inputs == AttentionInputs::kOneMap && !shape.same_tokens)
    fail_input("{}.type: {} attends among the tokens of one map, but here queries attend to other tokens",
               section.path(), spec.name);
  if (spec.inputs == AttentionInputs::kReferencePoints && !shape.reference_points)
    fail_input(
        "{}.type: {} needs reference points, which only an encoder, the blocks of a backbone and Deformable DETR's "
        "cross-attention have",
        section.path(), spec.name);
  auto layer = spec.make(shape, section);
  section.finish();
  return layer;
}

}  // namespace saccade
