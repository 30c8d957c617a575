// Parts shared by RT-DETR and D-FINE: a backbone, the hybrid encoder,
// and a decoder whose queries are the best tokens.
#pragma once

#include "layers/constant_keeper.h"
#include "layers/mlp.h"
#include "layers/norm.h"
#include "models/backbone.h"
#include "models/common/conv_norm.h"
#include "models/common/deformable_tokens.h"
#include "models/detection/denoising.h"
#include "models/detection/set_detector.h"
#include "models/rt_detr/hybrid_encoder.h"

namespace saccade {

// Makes a box head of three layers whose last one starts at zero; out: the numbers per query.
inline std::shared_ptr<Mlp> make_refining_head(int64_t dim, int64_t out, Activation activation) {
  const LinearOptions zero{.weight_init = init::constant(0), .bias_init = init::constant(0)};
  return std::make_shared<Mlp>(std::vector{dim, dim, dim, out},
                               MlpOptions{.activation = activation, .last = zero});
}

// Chooses the queries (Zhao et al. 2024, section 4.3): the tokens with the highest scores.
class QuerySelection : public Module {
  class TokenHead : public Module {
   public:
    explicit TokenHead(int64_t dim) {
      proj_ = make_child<Linear>("proj", dim, dim, LinearOptions{.weight_init = init::xavier_uniform()});
      norm_ = make_child<LayerNorm>("norm", dim);
    }
    Var forward(const Var& x) const { return norm_(proj_(x)); }

   private:
    Child<Linear> proj_;
    Child<LayerNorm> norm_;
  };

 public:
  // columns: of the logits; classes: the number of these that stand for a class
  QuerySelection(int64_t dim, int64_t columns, int64_t classes, int64_t queries, Activation activation)
      : classes_(classes), queries_(queries) {
    enc_output_ = make_child<TokenHead>("enc_output", dim);
    enc_score_head_ = child("enc_score_head", make_class_head(dim, columns));
    enc_bbox_head_ = child("enc_bbox_head", make_refining_head(dim, 4, activation));
  }
  // Returns queries with references [N, Q, 4] before the sigmoid and without positions. predictions: those of
  // the chosen tokens, in training.
  DecoderQueries forward(const Var& memory, const Proposals& proposals, LayerPrediction& predictions) const;

 private:
  int64_t classes_, queries_;
  Child<TokenHead> enc_output_;  // the tokens as they are scored
  Child<Linear> enc_score_head_;
  Child<Mlp> enc_bbox_head_;
};

struct HybridDecoderOptions {
  TransformerOptions transformer;  // including its levels
  int64_t queries = 300;
  int64_t columns = 0;  // of the logits
  int64_t classes = 0;  // the number of these that stand for a class
  DenoisingOptions denoising;
};

class HybridDecoder : public Module {
 public:
  // maps: the encoder's, [N, H_l, W_l, channels]. In evaluation, `layers` gets only the last one.
  void forward(const std::vector<Var>& maps, const DetectorInput& input, SetOutput& output);

 protected:
  // The family makes the parts in the order of its official code.
  explicit HybridDecoder(const HybridDecoderOptions& options) : shared_(options) {}
  void make_projections(int64_t channels) {
    const TransformerOptions& o = shared_.transformer;
    for (int64_t l = 0; l < o.levels; ++l)
      input_proj_.push_back(make_child<ConvNorm>(fmt::format("input_proj.{}", l), channels, o.dim,
                                                 ConvNormOptions{.weight_init = init::xavier_uniform()}));
  }
  // Also makes the embedding of the denoising queries.
  void make_layers() {
    const TransformerOptions& o = shared_.transformer;
    decoder_ = make_child<TransformerDecoder>("decoder", o, true);
    if (o.denoising)
      denoising_class_embed_ = make_child<LabelEmbedding>("denoising_class_embed", shared_.classes, o.dim);
  }
  void make_query_selection() {
    selection_ = make_child<QuerySelection>("", shared_.transformer.dim, shared_.columns, shared_.classes,
                                            shared_.queries, shared_.transformer.activation);
  }
  void add_score_head(int64_t layer) {
    dec_score_head_.push_back(child(fmt::format("dec_score_head.{}", layer),
                                    make_class_head(shared_.transformer.dim, shared_.columns)));
  }
  virtual void decode(const DecoderQueries& queries, const LevelTokens& tokens, bool record,
                      SetOutput& output) = 0;
  Child<TransformerDecoder> decoder_;
  std::vector<Child<Linear>> dec_score_head_;

 private:
  HybridDecoderOptions shared_;
  ConstantKeeper constants_;
  std::vector<Child<ConvNorm>> input_proj_;      // empty if the maps are used unchanged
  Child<LabelEmbedding> denoising_class_embed_;  // null without denoising
  Child<QuerySelection> selection_;
};

struct HybridOptions : SetDetectorOptions {
  HybridEncoderOptions encoder;
};

class HybridDetector : public SetDetector {
 public:
  SetOutput predict(const DetectorInput& input) override {
    SetOutput output;
    decoder_(encoder_(backbone_(input.images), input), input, output);
    return finished(std::move(output));
  }
  std::vector<std::string> class_heads() const override {
    return {"decoder.enc_score_head.", "decoder.dec_score_head.", "decoder.denoising_class_embed."};
  }
  std::vector<std::string> repeated_heads() const override {
    return {"decoder.dec_score_head.", "decoder.dec_bbox_head."};
  }

 protected:
  HybridDetector(const HybridOptions& options, std::shared_ptr<Backbone> backbone)
      : SetDetector(options),
        queries_(options.queries),
        channels_(options.encoder.dim),
        backbone_(child("backbone", std::move(backbone))) {
    encoder_ = make_child<HybridEncoder>("encoder", backbone_->channels(), options.encoder);
  }
  // Makes a Decoder(channels, options), after setting the options that the detector knows.
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

// Reads the sections model, its part `own` and criterion; the caller finishes them. family: for messages.
void read_hybrid(const Args& model, const Args& own, int64_t classes, const Args& criterion,
                 const std::string& family, HybridOptions& options, HybridDecoderOptions& decoder);
// Builds the backbone with as many maps as the transformer has levels.
std::shared_ptr<Backbone> build_hybrid_backbone(const Args& model, int64_t levels);

}  // namespace saccade
