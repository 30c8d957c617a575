// RF-DETR with masks (RF-DETR-Seg).
#include "models/build.h"
#include "models/lw_detr/lw_detr.h"
#include "models/lw_detr/weights.h"
#include "models/rf_detr/mask_head.h"

namespace saccade {
namespace {

struct RfDetrSegOptions : LwDetrOptions {
  int64_t mask_stride = 4, mask_point_sample_ratio = 16;

  void read(const Args& model, int64_t num_classes, const Args& section) {
    LwDetrOptions::read(model, num_classes, section);
    const Args& own = model.get_section("lw_detr");
    mask_stride = own.get_int("mask_stride");
    mask_point_sample_ratio = own.get_int("mask_point_sample_ratio");
    criterion.terms.push_back({"point_mask", own.get_float("mask_weight")});
    criterion.terms.push_back({"point_dice", own.get_float("dice_weight")});
    criterion.matcher.mask_cost = own.get_float("cost_mask");
    criterion.matcher.dice_cost = own.get_float("cost_dice");
  }
};

class RfDetrSeg : public LwDetr {
 public:
  RfDetrSeg(const RfDetrSegOptions& options, std::shared_ptr<Backbone> backbone)
      : LwDetr(options, std::move(backbone)),
        layers_(options.transformer.decoder_layers),
        cells_per_point_(options.mask_point_sample_ratio) {
    head_ =
        make_child<QueryMaskHead>("segmentation_head", options.transformer.dim, layers_, options.mask_stride);
  }

 private:
  // In training, adds the masks of all layers and of the proposals, whose pixels go through no block, as
  // factors; otherwise only those of the last layer.
  void add_masks(const Vars& queries, const Var& chosen, const Var& map, const Var& images,
                 SetOutput& output) override {
    output.canvas = {images.dim(1), images.dim(2)};
    auto factors = [&](const Var& pixels, const Var& of) {
      return MaskFactors{head_->of_pixels(pixels), head_->of_queries(of), head_->bias(), cells_per_point_};
    };
    Var pixels = head_->begin(map, images);
    if (training()) output.encoder.mask_factors = factors(pixels, chosen);
    const int64_t first = layers_ - std::ssize(queries);  // of the layers that predict
    for (int64_t i = 0; i < layers_; ++i) {
      pixels = head_->refine(i, pixels);
      if (i < first) continue;
      const auto at = static_cast<size_t>(i - first);
      const MaskFactors of_layer = factors(pixels, queries[at]);
      if (training())
        output.layers[at].mask_factors = of_layer;
      else
        output.layers[at].masks = product(of_layer);
    }
  }
  // [N, Q, h, w]
  static Var product(const MaskFactors& f) {
    const int64_t N = f.pixels.dim(0), h = f.pixels.dim(1), w = f.pixels.dim(2), C = f.pixels.dim(3);
    const int axes[] = {0, 2, 1};
    const Var all = matmul(f.queries, permute(reshape(f.pixels, {N, h * w, C}), axes));
    return reshape(add(all, f.bias), {N, f.queries.dim(1), h, w});
  }

  int64_t layers_, cells_per_point_;
  Child<QueryMaskHead> head_;
};

std::shared_ptr<Module> build_rf_detr_seg(const Args& model, int64_t classes, const Args& criterion) {
  return build_lw_detr_of<RfDetrSeg, RfDetrSegOptions>(model, classes, criterion, "RF-DETR-Seg");
}

[[maybe_unused]] const bool rf_detr_seg_registered =
    model_types().add({.name = "rf_detr_seg",
                       .summary = "RF-DETR with masks (Robinson et al. 2025)",
                       .task = "detection",
                       .build = build_rf_detr_seg,
                       .parts = {"transformer", "lw_detr"},
                       .has_masks = true,
                       .infer = infer_rf_detr_seg,
                       .preset = SACCADE_LW_DETR_PRESET("")});

}  // namespace
}  // namespace saccade
