// LW-DETR (Chen et al. 2024) and RF-DETR (Robinson et al. 2025): a vision transformer whose maps a projector
// joins, and a decoder without an encoder before it. Its queries have learned contents and begin at the best
// tokens; boxes are refined from there at once in all layers. In training further groups of queries, each
// with heads of its own over the tokens, are matched apart (Group DETR, Chen et al. 2023). Parameter names,
// counts and initialisation are the official ones.
#pragma once

#include "models/backbone.h"
#include "models/common/token_maps.h"
#include "models/detection/set_detector.h"
#include "models/dino/box_decoder.h"

namespace saccade {

struct ProjectorOptions {
  int64_t dim = 256;
  int64_t levels = 1;       // 1: a map of the same size; 2: one twice as fine, one twice as coarse
  int64_t blocks = 3;       // of two 3x3 convolutions each
  bool batch_norm = false;  // after a convolution; else a layer norm over its channels
};

struct LwDetrOptions : SetDetectorOptions {
  TransformerOptions transformer;
  ProjectorOptions projector;

  // From the sections model, with its part `lw_detr`, and criterion; the caller finishes them.
  void read(const Args& model, int64_t num_classes, const Args& criterion);
};

class LwDetr : public SetDetector {
 public:
  LwDetr(const LwDetrOptions& options, std::shared_ptr<Backbone> backbone);
  SetOutput predict(const DetectorInput& input) override;
  bool repeats_class_rows() const override { return true; }  // as the official RF-DETR
  QueryTables query_tables() const override {
    return {{"refpoint_embed.weight", "query_feat.weight"},
            "transformer.enc_output.",
            1 + options_.extra_query_groups};
  }

 protected:
  void after_initialize(uint64_t seed, const std::string& prefix) override;
  // What a family adds to the predictions. queries: of the layers that predict, the decoder's normalised
  // outputs; chosen: the tokens that the proposals are of; map: the projector's first; images: padded.
  virtual void add_masks(const Vars& /*queries*/, const Var& /*chosen*/, const Var& /*map*/,
                         const Var& /*images*/, SetOutput& /*output*/) {}

 private:
  class Transformer;
  class Projector;
  // With references [N, groups * Q, 4]; chosen: their tokens as the heads read them; predictions:
  // those of these.
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

// Of the type Family, which derives from LwDetr; `reader` for messages about what it does not read. The
// backbone gives its last map alone where the configuration names no others.
template <class Family, class Options = LwDetrOptions>
std::shared_ptr<Module> build_lw_detr_of(const Args& model, int64_t classes, const Args& criterion,
                                         const char* reader) {
  Options options;
  options.read(model, classes, criterion);
  model.get_section("transformer").finish(reader);
  model.get_section("lw_detr").finish(reader);
  return std::make_shared<Family>(options, build_backbone(model.get_section("backbone"), {}));
}

// Where the defaults of both families differ from the schema's (ModelSpec::preset); more:
// further parts of the model.
#define SACCADE_LW_DETR_PRESET(more)                                                                     \
  "model { backbone { type: 'dinov2' } transformer { encoder_layers: 0 decoder_layers: 3 ffn_dim: 2048 " \
  "dropout: 0 levels: 1 decoder_points: 2 extra_query_groups: 12 } " more                                \
  " } criterion { class_loss: ia_bce class_weight: 1 }"

}  // namespace saccade
