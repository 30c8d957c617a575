// D-FINE (Peng et al. 2024): HGNetv2, RT-DETR's encoder with other blocks, and a decoder that refines distributions.
#include "models/d_fine/d_fine.h"
#include "layers/module_scope.h"
#include "models/backbone.h"
#include "models/build.h"
#include "models/d_fine/decoder.h"
#include "models/detection/set_detector.h"
#include "models/rt_detr/hybrid_encoder.h"

namespace saccade {
namespace {

struct DFineOptions : SetDetectorOptions {
  HybridEncoderOptions encoder;
  DFineDecoderOptions decoder;  // but queries, columns and classes
};

class DFine : public SetDetector {
 public:
  DFine(const DFineOptions& options, std::shared_ptr<Backbone> backbone)
      : SetDetector(options), backbone_(child("backbone", std::move(backbone))) {
    encoder_ = make_child<HybridEncoder>("encoder", backbone_->channels(), options.encoder);
    DFineDecoderOptions decoder = options.decoder;
    decoder.queries = options.queries;
    decoder.columns = logit_columns();
    decoder.classes = classes();
    decoder_ = make_child<DFineDecoder>("decoder", options.encoder.dim, decoder);
  }
  SetOutput predict(const DetectorInput& input) override {
    ModuleScope scope(*this);
    SACCADE_CHECK(input.images.rank() == 4 && input.images.dim(3) == 3,
                  "[detector] images of shape {}, expected [N, H, W, 3]", input.images.shape().to_string());
    SetOutput output;
    decoder_->forward(encoder_->forward(backbone_->forward(input.images), input), input, output);
    return finished(std::move(output));
  }
  std::string type_name() const override { return "DFine"; }
  std::vector<std::string> class_heads() const override {
    return {"decoder.enc_score_head.", "decoder.dec_score_head.", "decoder.denoising_class_embed."};
  }
  std::vector<std::string> repeated_heads() const override {
    return {"decoder.dec_score_head.", "decoder.dec_bbox_head."};
  }

 private:
  std::shared_ptr<Backbone> backbone_;
  std::shared_ptr<HybridEncoder> encoder_;
  std::shared_ptr<DFineDecoder> decoder_;
};

std::shared_ptr<Module> build_d_fine(const Args& model, int64_t classes, const Args& criterion) {
  const Args &t = model.get_section("transformer"), &own = model.get_section("d_fine"),
             &hybrid = own.get_section("hybrid_encoder");
  DFineOptions options;
  options.read(t, criterion, classes);
  if (options.extra_query_groups > 0)
    fail_input("{}.extra_query_groups: D-FINE's queries come from the image, expected 0", t.path());
  TransformerOptions transformer = read_transformer_options(t);
  transformer.levels = t.get_int("levels");
  options.criterion.shared_boxes = true;
  options.criterion.terms.push_back({"fgl", own.get_float("fgl_weight")});
  options.criterion.terms.push_back({"ddf", own.get_float("ddf_weight")});
  options.encoder = read_hybrid_encoder(hybrid, transformer);
  options.encoder.elan_blocks = own.get_int("fusion_blocks");

  options.decoder.transformer = transformer;
  options.decoder.transformer.denoising = options.denoising.queries > 0;
  options.decoder.transformer.norms_in_order = true;
  options.decoder.transformer.activation = read_decoder_activation(own);
  options.decoder.transformer.gated = true;
  options.decoder.transformer.decoder_cross_attention.set("projections", false);
  options.decoder.denoising = options.denoising;
  options.decoder.bins = own.get_int("bins");
  options.decoder.bin_scale = own.get_float("bin_scale");
  if (options.decoder.bins % 2 != 0)
    fail_input("{}.bins: {}, expected an even number", own.path(), options.decoder.bins);
  t.finish("D-FINE");
  own.finish("D-FINE");

  auto backbone = build_backbone(model.get_section("backbone"), {2, 3, 4});
  const auto maps = static_cast<int64_t>(backbone->channels().size());
  if (transformer.levels != maps)
    fail_input("{}.levels: {} levels for {} backbone outputs, expected as many", t.path(), transformer.levels,
               maps);
  return std::make_shared<DFine>(options, std::move(backbone));
}

[[maybe_unused]] const bool d_fine_registered =
    model_types().add({.name = "d_fine",
                       .summary = "D-FINE (Peng et al. 2024)",
                       .task = "detection",
                       .file = __FILE__,
                       .build = build_d_fine,
                       .parts = {"transformer", "d_fine"},
                       .infer = infer_d_fine,
                       .preset = "model { transformer { encoder_layers: 1 dropout: 0 levels: 3 } }"
                                 "criterion { class_loss: varifocal }"});

}  // namespace
}  // namespace saccade
