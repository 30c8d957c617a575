// D-FINE (Peng et al. 2024): HGNetv2, RT-DETR's encoder with other blocks,
// and a decoder that refines distributions.

#include "models/build.h"
#include "models/d_fine/decoder.h"

namespace saccade {
namespace {

class DFine : public HybridDetector {
 public:
  DFine(const HybridOptions& options, const DFineDecoderOptions& decoder, std::shared_ptr<Backbone> backbone)
      : HybridDetector(options, std::move(backbone)) {
    make_decoder<DFineDecoder>(decoder);
  }
};

std::shared_ptr<Module> build_d_fine(const Args& model, int64_t classes, const Args& criterion) {
  const Args &t = model.get_section("transformer"), &own = model.get_section("d_fine");
  HybridOptions options;
  DFineDecoderOptions decoder;
  read_hybrid(model, own, classes, criterion, "D-FINE", options, decoder);
  options.criterion.shared_boxes = true;
  options.criterion.terms.push_back({"fgl", own.get_float("fgl_weight")});
  options.criterion.terms.push_back({"ddf", own.get_float("ddf_weight")});
  options.encoder.elan_blocks = own.get_int("fusion_blocks");
  decoder.transformer.gated = true;
  decoder.transformer.decoder_cross_attention.set("projections", false);
  decoder.bins = own.get_int("bins");
  decoder.bin_scale = own.get_float("bin_scale");
  if (decoder.bins % 2 != 0) fail_input("{}.bins: {}, expected an even number", own.path(), decoder.bins);
  t.finish("D-FINE");
  own.finish("D-FINE");
  return std::make_shared<DFine>(options, decoder, build_hybrid_backbone(model, decoder.transformer.levels));
}

[[maybe_unused]] const bool d_fine_registered =
    model_types().add({.name = "d_fine",
                       .summary = "D-FINE (Peng et al. 2024)",
                       .task = "detection",
                       .build = build_d_fine,
                       .parts = {"transformer", "d_fine"},
                       .infer = infer_d_fine,
                       .preset = "model { transformer { encoder_layers: 1 dropout: 0 levels: 3 } }"
                                 "criterion { class_loss: varifocal }"});

}  // namespace
}  // namespace saccade
