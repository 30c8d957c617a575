// RT-DETR (Zhao et al. 2024) and RT-DETRv2 (Lv et al. 2024): backbone, hybrid encoder, query selection,
// decoder. Parameter names, counts and initialisation are those of the official code of v2; v2 only adds
// `level_points` of the cross-attention.
#include "models/rt_detr/rt_detr.h"

#include <algorithm>

#include "models/build.h"

namespace saccade {
namespace {

struct RtDetrDecoderOptions : HybridDecoderOptions {
  int64_t eval_layers = 0;            // number of layers that run in evaluation; 0 for all
  int64_t query_position_layers = 2;  // of the MLP that computes a query's position from its box
};

// RT-DETR's decoder (Zhao et al. 2024, section 4.3): the tokens with the highest scores are the first
// queries; every layer has its own heads and refines the boxes of the one before. Parameter names are those
// of the official code of RT-DETRv2.
class RtDetrDecoder : public HybridDecoder {
 public:
  // channels: of the encoder's maps
  RtDetrDecoder(int64_t channels, const RtDetrDecoderOptions& options)
      : HybridDecoder(options), options_(options) {
    const TransformerOptions& o = options.transformer;
    make_projections(channels);
    make_layers();
    std::vector<int64_t> position{4};
    if (options.query_position_layers == 2) position.push_back(2 * o.dim);
    while (std::ssize(position) < options.query_position_layers) position.push_back(o.dim);
    position.push_back(o.dim);
    const LinearOptions xavier{.weight_init = init::xavier_uniform()};
    query_pos_head_ =
        make_child<Mlp>("query_pos_head", position, MlpOptions{.activation = o.activation, .linear = xavier});
    make_query_selection();
    for (int64_t i = 0; i < o.decoder_layers; ++i) add_score_head(i);
    for (int64_t i = 0; i < o.decoder_layers; ++i)
      dec_bbox_head_.push_back(
          child(fmt::format("dec_bbox_head.{}", i), make_refining_head(o.dim, 4, o.activation)));
  }

 private:
  // Refines boxes from layer to layer; the gradient of a layer's box also flows to the head of the layer
  // before, but no further ("look forward twice").
  void decode(const DecoderQueries& q, const LevelTokens& tokens, bool record, SetOutput& output) override {
    const int64_t N = q.target.dim(0), Q = q.target.dim(1), all = options_.transformer.decoder_layers;
    const int64_t count = training() || options_.eval_layers == 0 ? all : std::min(options_.eval_layers, all);
    Var ratios = Var(tokens.maps.valid_ratios.unsqueeze(1));  // [N, 1, L, 2]
    ratios = concat({ratios, ratios}, -1);
    Var target = q.target, reference = sigmoid(q.reference), previous = reference;
    for (int64_t i = 0; i < count; ++i) {
      const bool predicts = training() || i + 1 == count;
      auto layer = static_cast<size_t>(i);
      target = decoder_->layer(i)(
          target, query_pos_head_(reference),
          attend_to(tokens, mul(reshape(reference, {N, Q, 1, 4}), ratios), record, output), q.groups);
      Var offset = dec_bbox_head_[layer](target);
      Var box = sigmoid(add(offset, inverse_sigmoid(reference)));
      if (predicts)
        add_layer(output, q.denoising,
                  {.logits = dec_score_head_[layer](target),
                   .boxes = i == 0 || !training() ? box : sigmoid(add(offset, inverse_sigmoid(previous)))});
      previous = box;
      reference = box.detach();
    }
  }

  RtDetrDecoderOptions options_;
  Child<Mlp> query_pos_head_;
  std::vector<Child<Mlp>> dec_bbox_head_;
};

class RtDetr : public HybridDetector {
 public:
  RtDetr(const HybridOptions& options, const RtDetrDecoderOptions& decoder,
         std::shared_ptr<Backbone> backbone)
      : HybridDetector(options, std::move(backbone)) {
    make_decoder<RtDetrDecoder>(decoder);
  }
};

std::shared_ptr<Module> build_rt_detr(const Args& model, int64_t classes, const Args& criterion) {
  const Args &t = model.get_section("transformer"), &own = model.get_section("rt_detr");
  HybridOptions options;
  RtDetrDecoderOptions decoder;
  read_hybrid(model, own, classes, criterion, "RT-DETR", options, decoder);
  if (own.get_string("decoder_sampling") == "discrete")
    decoder.transformer.decoder_cross_attention.set("sampling", std::string("discrete"));
  decoder.eval_layers = own.get_int("eval_layers");
  if (decoder.eval_layers > decoder.transformer.decoder_layers)
    fail_input("{}.eval_layers: {}, expected at most decoder_layers ({})", own.path(), decoder.eval_layers,
               decoder.transformer.decoder_layers);
  decoder.query_position_layers = own.get_int("query_position_layers");
  t.finish("RT-DETR");
  own.finish("RT-DETR");
  return std::make_shared<RtDetr>(options, decoder, build_hybrid_backbone(model, decoder.transformer.levels));
}

[[maybe_unused]] const bool rt_detr_registered =
    model_types().add({.name = "rt_detr",
                       .summary = "RT-DETR and RT-DETRv2 (Zhao et al. 2024, Lv et al. 2024)",
                       .task = "detection",
                       .build = build_rt_detr,
                       .parts = {"transformer", "rt_detr"},
                       .infer = infer_rt_detr,
                       .preset = "model { transformer { encoder_layers: 1 dropout: 0 levels: 3 } }"
                                 "criterion { class_loss: varifocal }"});

}  // namespace
}  // namespace saccade
