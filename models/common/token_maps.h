// Geometry of the tokens: which are padding, where their centres are.
#pragma once

#include "models/common/transformer.h"
#include "models/detector.h"

namespace saccade {

// levels: of input.images. A level's mask is the image's mask resized with nearest neighbours, as the official
// code does.
TokenMaps make_token_maps(const FeatureLevels& levels, const DetectorInput& input);

// Two-stage proposals (official gen_encoder_output_proposals): one box per token, centred on it, 0.05 *
// 2^level wide.
struct Proposals {
  Tensor logits;   // f32 [N, S, 4], inverse sigmoid of (cx, cy, w, h); +inf where invalid
  Tensor invalid;  // bool [N, S]: padded, or not inside (0.01, 0.99)
};
Proposals make_proposals(const TokenMaps& maps);

}  // namespace saccade
