// What a detector predicts that sees an image's objects as a set, as the DETR family does.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor/error.h"
#include "models/detector.h"

namespace saccade {

// The sides of boxes as distributions (D-FINE), from which `boxes` follow.
struct SidePrediction {
  Var logits;         // [N, Q, 4 (R + 1)]: of left, top, right, bottom; undefined where a family has none
  Var references;     // [N, Q, 4] as (cx, cy, w, h): what the distances are measured from; without history
  Var values, scale;  // [R + 1], [1]: see BinScale (models/d_fine/distribution.h)
};

// Masks that are not made of all queries while a model trains: their logits are the products of both,
// plus the bias.
struct MaskFactors {
  Var pixels;   // [N, h, w, C], of a map that covers the padded image; undefined where there are none
  Var queries;  // [N, Q, C]
  Var bias;     // [1]
  int64_t cells_per_point = 1;  // they are compared at one point for so many cells
};

// What one decoder layer predicts.
struct LayerPrediction {
  Var logits;  // [N, Q, K]
  Var boxes;   // [N, Q, 4] as (cx, cy, w, h) in [0, 1], relative to the un-padded image
  // [N, Q, h, w], logits of the pixels of a map that covers the padded image;
  // undefined where no masks are predicted
  Var masks = {};
  SidePrediction sides = {};
  MaskFactors mask_factors = {};
};

struct MatchedPair {
  int64_t image;   // position in the batch
  int64_t query;   // in [0, Q)
  int64_t object;  // position in the image's target
};

// Training with denoising (models/detection/denoising.h): what queries predict that are made of the objects.
struct DenoisingOutput {
  std::vector<LayerPrediction> layers;  // [N, D, ...], in decoder order; empty without denoising
  LayerPrediction first;                // as SetOutput::first
  std::vector<MatchedPair> pairs;       // the queries that answer an object; the others see none
  int64_t groups = 0;                   // how often each object is asked for
};

struct SetOutput : DetectorOutput {
  std::vector<LayerPrediction>
      layers;  // of the matching queries, in decoder order; the last one is the result
  // The same as one, [L, N, Q, ...], where the model makes them at once and there is no denoising;
  // else undefined.
  LayerPrediction stacked = {};
  LayerPrediction encoder;  // two-stage proposals; else undefined
  LayerPrediction first;    // of the first decoder layer, before it refines (D-FINE); else undefined
  // The proposals' logits are those of all classes; else column 0 is that of one class, "object".
  bool encoder_classes = false;
  bool encoder_in_groups = false;  // the proposals are of all query groups
  DenoisingOutput denoising;
  // Training with extra query groups: Q is this many groups of equal size, each matched with all objects on
  // its own.
  int64_t query_groups = 1;
  ImageSize canvas;  // of the padded images, where there are masks

  std::vector<std::pair<std::string, Var>> results() const override {
    std::vector<std::pair<std::string, Var>> all{{"logits", layers.back().logits},
                                                 {"boxes", layers.back().boxes}};
    if (layers.back().masks.defined()) all.emplace_back("masks", layers.back().masks);
    return all;
  }
};

// Throws Error for the output of another kind of detector.
inline const SetOutput& set_output(const DetectorOutput& output) {
  const auto* set = dynamic_cast<const SetOutput*>(&output);
  SACCADE_CHECK(set != nullptr, "[detector] the output of a detector that predicts no set");
  return *set;
}

}  // namespace saccade
