#include "core/kernels/bf16_copies/round_pieces.h"

#include "core/kernels/common/pieces.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kStretch = 8;  // elements of one call: 32 bytes in, 16 out

struct RoundStretch {
  const RoundPiece* pieces;
  SACCADE_HD void operator()(int64_t i) const {
    const RoundPiece piece = pieces[i / (kRoundPiece / kStretch)];
    int64_t begin = i % (kRoundPiece / kStretch) * kStretch;
    int64_t end = begin + kStretch < piece.count ? begin + kStretch : piece.count;
    for (int64_t k = begin; k < end; ++k) piece.to[k] = bf16(piece.from[k]);
  }
};

void round_pieces_generic(const Tensor& table) {
  auto pieces = table.numel() / static_cast<int64_t>(sizeof(RoundPiece));
  for_each(pieces * (kRoundPiece / kStretch), RoundStretch{pieces_of<RoundPiece>(table)}, kStretch);
}

SACCADE_REGISTER_KERNEL(round_pieces, &round_pieces_generic);

}  // namespace
}  // namespace saccade::kernels
