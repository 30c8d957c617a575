// The one interface of all attention layers, which encoders and decoders use. A layer takes what it needs
// from the input. A new layer is one file in layers/attention/ with a SACCADE_REGISTER_ATTENTION line.
#pragma once

#include <memory>
#include <string>

#include "autograd/ops.h"
#include "core/runtime/registry.h"
#include "layers/args.h"
#include "layers/module.h"

namespace saccade {

// The positions that a deformable layer sampled, for drawing.
struct SamplingRecord {
  Tensor locations;  // f32 [N, Q, M, L, P, 2] as (x, y) relative to the padded image
  Tensor weights;    // f32 [N, Q, M, L, P]
};

// The keys that each query sees, if not all of them.
struct AttentionMask {
  // Added to the scores, f32 [heads or 1, Q, S] or [N, heads or 1, Q, S]: 0, or so low that a key gets no
  // weight. Undefined means 0.
  Tensor bias;
  // For queries that are also the keys: those from index `apart` on see only each other, and `bias` applies
  // to the queries before them. 0 if there is no such part.
  int64_t apart = 0;
};
// Returns the mask for `queries` queries, of which the first count * size form groups: those of a group see
// each other and the queries after the groups, which see only themselves (denoising:
// models/detection/denoising.h).
AttentionMask mask_of_groups(int64_t count, int64_t size, int64_t queries, Device device);

struct AttentionInput {
  Var query;  // [N, Q, C], position already added
  Var key;    // [N, S, C], position already added (dot-product layers)
  Var value;  // [N, S, C]
  // For layers that keep positions separate (separates_positions): [N, Q, C] and [N or 1, S, C], not added to
  // query and key. Undefined if there are none.
  Var query_position, key_position;
  Tensor padding_mask;   // bool [N, S], true = padded token; undefined if nothing is padded
  Var reference_points;  // [N, Q, L, 2 or 4], normalised to the padded levels (deformable layers)
  FeatureLevels levels;  // the L maps whose cells the S tokens are; empty if they are not cells of maps
  SamplingRecord* record = nullptr;
  AttentionMask mask;
};

class Attention : public Module {
 public:
  virtual Var forward(const AttentionInput& input) = 0;  // -> [N, Q, C]
  // Whether it uses AttentionInput::mask; others are never given one.
  virtual bool supports_mask() const { return false; }
  // Whether it takes the positions of queries and keys separately.
  virtual bool separates_positions() const { return false; }
};

// The parameters that the model decides; the others come from the layer's own arguments.
struct AttentionShape {
  int64_t dim = 256;   // C
  int64_t heads = 8;   // divides C
  int64_t levels = 1;  // L
  int64_t points = 4;  // sampling points per head and level, unless the layer's arguments differ
  double dropout = 0;
  // The inputs that this place in the model offers, see AttentionInputs.
  bool same_tokens = true;
  bool reference_points = true;
};

// The kinds of input that a layer takes; the generated tests and `saccade describe` use them.
enum class AttentionInputs {
  kQueriesAndTokens,  // any queries, any tokens
  kReferencePoints,   // any queries with reference points, tokens that are cells of maps
  kOneMap,            // query, key and value are the same tokens, those of one map (levels has one entry);
                      // padding is part of the map, as in the backbones
};

struct AttentionSpec {
  std::string name;
  std::string summary;     // one line: what it is and where it comes from
  std::string shapes;      // inputs and output
  std::string complexity;  // in N_q (queries), N_k (keys), C, K (points), L (levels)
  std::string file;
  std::shared_ptr<Attention> (*make)(const AttentionShape& shape, const Args& args);
  AttentionInputs inputs = AttentionInputs::kQueriesAndTokens;
};

inline Registry<AttentionSpec>& attention_layers() { return registry_of<AttentionSpec>("attention layer"); }

// Returns the registration of the layer that a config section requests as `type`, or of `fallback` if it
// names none.
const AttentionSpec& attention_spec(const Args& section, const std::string& fallback);
// Builds this layer with the section's arguments. Throws InputError if shape.heads does not divide shape.dim,
// or if the place does not offer the layer's inputs.
std::shared_ptr<Attention> make_attention(const Args& section, const std::string& fallback,
                                          const AttentionShape& shape);

// SACCADE_REGISTER_ATTENTION("name", Class, "summary", "shapes", "complexity"[, AttentionInputs]):
// Class(const AttentionShape&, const Args&)
#define SACCADE_REGISTER_ATTENTION(name, Class, summary, shapes, complexity, ...)                        \
  [[maybe_unused]] static const bool Class##_registered =                                                \
      ::saccade::attention_layers().add({name, summary, shapes, complexity, __FILE__,                    \
                                         [](const ::saccade::AttentionShape& shape,                      \
                                            const ::saccade::Args& args) -> std::shared_ptr<Attention> { \
                                           return std::make_shared<Class>(shape, args);                  \
                                         } __VA_OPT__(, ) __VA_ARGS__})

}  // namespace saccade
