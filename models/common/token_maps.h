// Geometry of the tokens: which are padding, where their centres lie.
#pragma once

#include "models/common/transformer.h"
#include "models/detector.h"

namespace saccade {

// `sizes` (empty: nothing padded) are the valid parts of padded images of height x width; a level's mask is
// the image's mask resized with nearest neighbours, as the official code does.
TokenMaps make_token_maps(const std::vector<LevelShape>& levels, int64_t batch, int64_t height, int64_t width,
                          const std::vector<ImageSize>& sizes, Device device);
// The valid part of one level for every sample, in cells.
std::vector<ImageSize> valid_sizes(const LevelShape& level, int64_t batch, int64_t height, int64_t width,
                                   const std::vector<ImageSize>& sizes);
// The sine encoding of one level (layers/position_encoding.h) -> [N or 1, S, dim].
Tensor sine_positions(const LevelShape& level, int64_t batch, int64_t height, int64_t width,
                      const std::vector<ImageSize>& sizes, int64_t dim, double offset, Device device);

// Two-stage proposals (official gen_encoder_output_proposals): one box per token, centred on it, 0.05 *
// 2^level wide.
struct Proposals {
  Tensor logits;   // f32 [N, S, 4], inverse sigmoid of (cx, cy, w, h); +inf where invalid
  Tensor invalid;  // bool [N, S]: padded, or not inside (0.01, 0.99)
};
Proposals make_proposals(const std::vector<LevelShape>& levels, int64_t batch, int64_t height, int64_t width,
                         const std::vector<ImageSize>& sizes, Device device);

}  // namespace saccade
