// LW-DETR (Chen et al. 2024) and RF-DETR (Robinson et al. 2025): a vision transformer whose maps a projector
// joins, and a decoder without an encoder. The queries have learned contents and start at the best tokens;
// all layers refine the boxes from there, not from each other's. In training, additional groups of queries,
// each with its own heads over the tokens, are matched separately (Group DETR, Chen et al. 2023). Parameter
// names, counts and initialisation are the official ones.
#pragma once

#include "models/backbone.h"
#include "models/common/token_maps.h"
#include "models/detection/set_detector.h"
#include "models/dino/box_decoder.h"

namespace saccade {

struct ProjectorOptions {
  int64_t dim = 256;
  int64_t levels = 1;       // 1: a map of the same size; 2: one twice as fine and one twice as coarse
  int64_t blocks = 3;       // with two 3x3 convolutions each
  bool batch_norm = false;  // after a convolution; else a layer norm over the channels
};

struct LwDetrOptions : SetDetectorOptions {
  TransformerOptions transformer;
  ProjectorOptions projector;

  // Reads the sections model, with its part `lw_detr`, and criterion; the caller finishes them.
  void read(const Args& model, int64_t num_classes, const Args& criterion);
};

class LwDetr : public SetDetector {
 public:
  LwDetr(const LwDetrOptions& options, std::shared_ptr<Backbone> backbone);
  SetOutput predict(const DetectorInput& input) override;
  bool repeats_class_rows() const override { return true; }  // as in the official RF-DETR
  QueryTables query_tables() const override {
    return {{"refpoint_embed.weight", "query_feat.weight"},
            "transformer.enc_output.",
            1 + options_.extra_query_groups};
  }

 protected:
  void after_initialize(uint64_t seed, const std::string& prefix) override;
  // Lets a family add to the predictions. queries: the decoder's normalised outputs in the layers that
  // predict; chosen: the tokens of the proposals; map: the projector's first; images: padded.
  virtual void add_masks(const Vars& /*queries*/, const Var& /*chosen*/, const Var& /*map*/,
                         const Var& /*images*/, SetOutput& /*output*/) {}

 private:
  class Transformer;
  class Projector;
  // Returns queries with references [N, groups * Q, 4]. chosen: their tokens as the heads read them;
  // predictions: those of the heads for these.
  DecoderQueries choose_queries(const Var& memory, const TokenMaps& maps, Var& chosen,
                                LayerPrediction& predictions) const;

  LwDetrOptions options_;
  Child<Transformer> transformer_;
  Child<Linear> class_embed_;
  Child<Mlp> bbox_embed_;
  Var refpoint_embed_, query_feat_;  // [groups * Q, 4], [groups * Q, C]
  Child<Backbone> backbone_;
  Child<Projector> projector_;
  ConstantKeeper constants_;
};

// Builds a model of type Family, which derives from LwDetr; `reader` is for messages about fields that it
// does not read. The backbone returns only its last map unless the configuration names others.
template <class Family, class Options = LwDetrOptions>
std::shared_ptr<Module> build_lw_detr_of(const Args& model, int64_t classes, const Args& criterion,
                                         const char* reader) {
  Options options;
  options.read(model, classes, criterion);
  model.get_section("transformer").finish(reader);
  model.get_section("lw_detr").finish(reader);
  return std::make_shared<Family>(options, build_backbone(model.get_section("backbone"), {}));
}

// The defaults of both families that differ from the schema's (ModelSpec::preset); more:
// further parts of the model.
#define SACCADE_LW_DETR_PRESET(more)                                                                     \
  "model { backbone { type: 'dinov2' } transformer { encoder_layers: 0 decoder_layers: 3 ffn_dim: 2048 " \
  "dropout: 0 levels: 1 decoder_points: 2 extra_query_groups: 12 } " more                                \
  " } criterion { class_loss: ia_bce class_weight: 1 }"

}  // namespace saccade
