// The output of a detector that predicts an image's objects as a set, such as the DETR family.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor/error.h"
#include "models/detector.h"

namespace saccade {

// The sides of boxes as distributions (D-FINE), which determine `boxes`.
struct SidePrediction {
  Var logits;         // [N, Q, 4 (R + 1)]: of left, top, right, bottom; undefined if a family has none
  Var references;     // [N, Q, 4] as (cx, cy, w, h): the distances are measured from these; without history
  Var values, scale;  // [R + 1], [1]: see BinScale (models/d_fine/distribution.h)
};

// Factors of masks, which are not computed for all queries in training: the logits are the products of both,
// plus the bias.
struct MaskFactors {
  Var pixels;   // [N, h, w, C], of a map that covers the padded image; undefined if there are none
  Var queries;  // [N, Q, C]
  Var bias;     // [1]
  int64_t cells_per_point = 1;  // masks are compared at one point per so many cells
};

// The prediction of one decoder layer.
struct LayerPrediction {
  Var logits;  // [N, Q, K]
  Var boxes;   // [N, Q, 4] as (cx, cy, w, h) in [0, 1], relative to the un-padded image
  // [N, Q, h, w], logits of the pixels of a map that covers the padded image;
  // undefined if no masks are predicted
  Var masks = {};
  SidePrediction sides = {};
  MaskFactors mask_factors = {};
};

struct MatchedPair {
  int64_t image;   // position in the batch
  int64_t query;   // in [0, Q)
  int64_t object;  // position in the image's target
};

// Training with denoising (models/detection/denoising.h): the predictions of the queries made from objects.
struct DenoisingOutput {
  std::vector<LayerPrediction> layers;  // [N, D, ...], in decoder order; empty without denoising
  LayerPrediction first;                // as SetOutput::first
  std::vector<MatchedPair> pairs;       // the queries that answer an object; the others should find none
  int64_t groups = 0;                   // how often each object is asked for
};

struct SetOutput : DetectorOutput {
  std::vector<LayerPrediction> layers;  // of the matching queries, in decoder order; the last is the result
  // The same as one, [L, N, Q, ...], if the model computes them at once and there is no denoising;
  // otherwise undefined.
  LayerPrediction stacked = {};
  LayerPrediction encoder;  // two-stage proposals; else undefined
  LayerPrediction first;    // of the first decoder layer, before it refines (D-FINE); else undefined
  // Whether the proposals' logits are those of all classes; else column 0 is that of one class, "object".
  bool encoder_classes = false;
  bool encoder_in_groups = false;  // whether the proposals are those of all query groups
  DenoisingOutput denoising;
  // Training with extra query groups: Q consists of this many groups of equal size, each matched with all
  // objects on its own.
  int64_t query_groups = 1;
  ImageSize canvas;  // size of the padded images, if there are masks

  std::vector<std::pair<std::string, Var>> results() const override {
    std::vector<std::pair<std::string, Var>> all{{"logits", layers.back().logits},
                                                 {"boxes", layers.back().boxes}};
    if (layers.back().masks.defined()) all.emplace_back("masks", layers.back().masks);
    return all;
  }
};

// Throws Error if the output is that of another kind of detector.
inline const SetOutput& set_output(const DetectorOutput& output) {
  const auto* set = dynamic_cast<const SetOutput*>(&output);
  SACCADE_CHECK(set != nullptr, "[detector] the output of a detector that predicts no set");
  return *set;
}

}  // namespace saccade
