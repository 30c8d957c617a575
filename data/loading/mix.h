// Mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019) of a batch with itself in reverse order, with one
// lambda for the whole batch, as in timm's Mixup with mode "batch"; and the mix-up of detection batches.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/philox.h"
#include "data/augment/augment.h"
#include "data/loading/batch.h"

namespace saccade {

struct MixOptions {
  double probability = 1;           // of mixing a batch at all
  double mixup_alpha = 0;           // lambda is drawn from Beta(alpha, alpha); 0 for no mixup
  double cutmix_alpha = 0;          // likewise; 0 for no CutMix
  double cutmix_probability = 0.5;  // of CutMix if both are possible
  bool on() const { return probability > 0 && (mixup_alpha > 0 || cutmix_alpha > 0); }
};

// Throws Error naming an option that is out of range.
void check_mix_options(const MixOptions& options);

// Blends image n with image N - 1 - n, or replaces a rectangle of it, and sets batch.lambda. All images must
// fill the batch (no padding).
void mix_batch(Batch& batch, const MixOptions& options, Rng& rng);

// DEIM's mix-up (Huang et al., 2025): image n is `share` of itself and 1 - share of image n - 1 (cyclically),
// with the objects of both. All images must fill the batch; a single image stays unchanged.
struct BatchMixup {
  double probability = 0;  // of mixing a batch; its share is drawn from [0.45, 0.55)
  EpochRange epochs;
};
void mix_up_objects(Batch& batch, double share);

// Throws Error "[who] ..." if an image does not fill the batch.
void check_filled(const Batch& batch, const char* who);

// Draws from Beta(alpha, alpha), alpha > 0.
double draw_beta(double alpha, Rng& rng);

// One size for all images of a batch, drawn for each batch: the multi-scale training of the YOLO and RT-DETR
// families.
struct MultiScale {
  std::vector<int64_t> heights;  // one is drawn, all entries equally likely; empty if the size stays
  EpochRange epochs;
  bool bilinear = false;
};

// Resizes to this height, the width in proportion (rounded), like torch's interpolate with mode "nearest" or
// "bilinear" (without antialiasing, rounded to bytes). All images must fill the batch (no padding).
void resize_batch(Batch& batch, int64_t height, bool bilinear = false);

}  // namespace saccade
