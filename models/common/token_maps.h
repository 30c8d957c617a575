// Geometry of the tokens: which are padding and where their centres are.
#pragma once

#include "layers/constant_keeper.h"
#include "layers/position_encoding.h"
#include "models/common/transformer.h"
#include "models/detector.h"

namespace saccade {

// levels: of input.images. A level's mask is the image's mask resized with nearest neighbours, as in the
// official code. With a keeper, nothing is recomputed while the sizes stay the same.
TokenMaps make_token_maps(const FeatureLevels& levels, const DetectorInput& input,
                          const ConstantKeeper* keeper = nullptr);

// Sine encoding (Carion et al. 2020) of every level: the first half of the channels encodes y, the second x;
// channel pairs are the sine and cosine of the coordinate over temperature^(2i / (C/2)). Coordinates are
// (cell + 1 + offset) / (valid size + 1e-6) * 2 pi. Cells in the padding repeat the last valid one.
// C must be a multiple of 4.
// -> f32 [N, H * W, C] per level; the batch is 1 if all images have the same valid size.
struct SinePositions {
  double offset = 0;  // 0 in DETR, -0.5 in Deformable DETR: the cell's centre
  double temperature = kSineTemperature;
};
Tensors sine_positions(const TokenMaps& maps, int64_t channels, const SinePositions& options,
                       const ConstantKeeper* keeper = nullptr);

// Two-stage proposals (official gen_encoder_output_proposals): one box per token, centred on it, 0.05 *
// 2^level wide.
struct Proposals {
  Tensor logits;   // f32 [N, S, 4], inverse sigmoid of (cx, cy, w, h); +inf where invalid
  Tensor invalid;  // bool [N, S]: padded, or not inside (0.01, 0.99)
};
Proposals make_proposals(const TokenMaps& maps, const ConstantKeeper* keeper = nullptr);

// Returns the `count` tokens (or all S, if there are fewer) whose best class scores highest, by descending
// score; ties go to the lower token. logits [N, S, columns >= classes]; the columns after the classes ("no
// object") do not count. -> i64 [N, min(count, S)]
Tensor best_tokens(const Tensor& logits, int64_t classes, int64_t count);

}  // namespace saccade
