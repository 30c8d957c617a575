#include "layers/attention.h"

namespace saccade {

const AttentionSpec& attention_spec(const Args& section, const std::string& fallback) {
  return attention_layers().find(section.get_string("type", fallback), section.path() + ".type");
}

AttentionMask mask_of_groups(int64_t count, int64_t size, int64_t queries, Device device) {
  const int64_t D = count * size;
  AttentionMask mask{.bias = {}, .apart = D};
  SACCADE_CHECK(D <= queries, "[attention] {} groups of {} among {} queries", count, size, queries);
  if (count <= 1) return mask;
  // Each entry is the squared distance of two groups' numbers times a factor that is 0 for the queries after
  // the groups: only a few numbers go to the device, which computes the matrix from them.
  constexpr float kHidden = -1e9f;
  std::vector<float> numbers(static_cast<size_t>(queries)), factors(static_cast<size_t>(queries));
  for (int64_t i = 0; i < D; ++i) {
    const int64_t group = i / size;
    numbers[static_cast<size_t>(i)] = static_cast<float>(group);
    factors[static_cast<size_t>(i)] = kHidden;
  }
  NoGrad no_grad;
  Tensor of_key = Tensor::from<float>({1, 1, queries}, numbers, device);
  Var distance = sub(Var(of_key.slice(2, 0, D).reshape({1, D, 1})), Var(of_key));
  mask.bias = mul(square(distance), Var(Tensor::from<float>({1, 1, queries}, factors, device))).value();
  return mask;
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
