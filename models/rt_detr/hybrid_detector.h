// What RT-DETR and D-FINE have in common: a backbone, the hybrid encoder,
// and a decoder whose queries are the best tokens.
#pragma once

#include "layers/constant_keeper.h"
#include "models/backbone.h"
#include "models/common/conv_norm.h"
#include "models/detection/set_detector.h"
#include "models/rt_detr/hybrid_encoder.h"
#include "models/rt_detr/query_selection.h"

namespace saccade {

struct HybridDecoderOptions {
  TransformerOptions transformer;  // with its levels
  int64_t queries = 300;
  int64_t columns = 0;  // of the logits
  int64_t classes = 0;  // of them, those that stand for a class
  DenoisingOptions denoising;
};

class HybridDecoder : public Module {
 public:
  // maps: the encoder's, [N, H_l, W_l, channels]. In evaluation `layers` has the last one only.
  void forward(const std::vector<Var>& maps, const DetectorInput& input, SetOutput& output);

 protected:
  // The parts are made by the family, in the order of its official code.
  explicit HybridDecoder(const HybridDecoderOptions& options) : shared_(options) {}
  void make_projections(int64_t channels);
  void make_layers();  // and the embedding of the denoising queries
  void make_query_selection();
  void add_score_head(int64_t layer);
  virtual void decode(const DecoderQueries& queries, const Var& memory, const TokenMaps& maps,
                      const DetectorInput& input, SetOutput& output) = 0;
  Child<TransformerDecoder> decoder_;
  std::vector<Child<Linear>> dec_score_head_;

 private:
  HybridDecoderOptions shared_;
  ConstantKeeper constants_;
  std::vector<Child<ConvNorm>> input_proj_;      // empty: the maps are taken as they are
  Child<LabelEmbedding> denoising_class_embed_;  // null without denoising
  Child<QuerySelection> selection_;
};

struct HybridOptions : SetDetectorOptions {
  HybridEncoderOptions encoder;
};

class HybridDetector : public SetDetector {
 public:
  SetOutput predict(const DetectorInput& input) override;
  std::vector<std::string> class_heads() const override {
    return {"decoder.enc_score_head.", "decoder.dec_score_head.", "decoder.denoising_class_embed."};
  }
  std::vector<std::string> repeated_heads() const override {
    return {"decoder.dec_score_head.", "decoder.dec_bbox_head."};
  }

 protected:
  HybridDetector(const HybridOptions& options, std::shared_ptr<Backbone> backbone);
  // Decoder(channels, options), the options with what the detector knows.
  template <class Decoder, class Options>
  void make_decoder(Options options) {
    options.queries = queries_;
    options.columns = logit_columns();
    options.classes = classes();
    decoder_ = make_child<Decoder>("decoder", channels_, options);
  }

 private:
  int64_t queries_, channels_;
  Child<Backbone> backbone_;
  Child<HybridEncoder> encoder_;
  Child<HybridDecoder> decoder_;
};

// From the sections model, its part `own` and criterion, which the caller finishes; `family` for messages.
void read_hybrid(const Args& model, const Args& own, int64_t classes, const Args& criterion,
                 const std::string& family, HybridOptions& options, HybridDecoderOptions& decoder);
// With as many maps as the transformer has levels.
std::shared_ptr<Backbone> build_hybrid_backbone(const Args& model, int64_t levels);

}  // namespace saccade
