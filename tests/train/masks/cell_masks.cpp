// A complete detector that also predicts masks: docs/extending.md's CellDetector with a map for each query.
// Nothing outside this file knows about it.
#include "layers/conv2d.h"
#include "layers/mlp.h"
#include "models/backbone.h"
#include "models/build.h"
#include "models/common/token_maps.h"
#include "models/detection/set_detector.h"

namespace saccade {
namespace {

// The mask of a query is where the pixels' embeddings point in the direction of the query's own (Cheng et al.
// 2021, MaskFormer, eq. 2).
class CellMasks : public SetDetector {
 public:
  CellMasks(const SetDetectorOptions& options, std::shared_ptr<Backbone> backbone, int64_t dim)
      : SetDetector(options) {
    backbone_ = child("backbone.0.body", std::move(backbone));
    pixels_ = make_child<Conv2d>("pixels", backbone_->channels().front(), dim, 1, Conv2dOptions{});
    conv_ = make_child<Conv2d>("conv", backbone_->channels().back(), dim, 3, Conv2dOptions{.padding = 1});
    class_embed_ = make_child<Linear>("class_embed", dim, logit_columns(),
                                      LinearOptions{.bias_init = init::constant(-4.6)});
    bbox_embed_ = make_child<Mlp>("bbox_embed", std::vector<int64_t>{dim, dim, dim, 4});
    mask_embed_ = make_child<Mlp>("mask_embed", std::vector<int64_t>{dim, dim, dim});
  }

  SetOutput predict(const DetectorInput& input) override {
    const std::vector<Var> maps = backbone_(input.images);
    const Var map = conv_(maps.back(), Activation::kRelu), pixels = pixels_(maps.front());
    const int64_t N = map.dim(0), h = pixels.dim(1), w = pixels.dim(2), C = pixels.dim(3);
    Var cells = reshape(map, {N, map.dim(1) * map.dim(2), C});
    const Proposals around = make_proposals(make_token_maps(FeatureLevels{{map.dim(1), map.dim(2)}}, input));
    cells = masked_fill(cells, around.invalid.unsqueeze(-1), 0);
    const int last_two[] = {0, 2, 1};
    const Var masks = matmul(mask_embed_(cells), permute(reshape(pixels, {N, h * w, C}), last_two));
    SetOutput output;
    output.layers.push_back({class_embed_(cells), sigmoid(add(bbox_embed_(cells), Var(around.logits))),
                             reshape(masks, {N, masks.dim(1), h, w})});
    output.canvas = {input.images.dim(1), input.images.dim(2)};
    return output;
  }
  std::string type_name() const override { return "CellMasks"; }

 private:
  Child<Backbone> backbone_;
  Child<Conv2d> pixels_, conv_;
  Child<Linear> class_embed_;
  Child<Mlp> bbox_embed_, mask_embed_;
};

[[maybe_unused]] const bool cell_masks_registered = model_types().add(
    {.name = "cell_masks",
     .summary = "Every cell of one map is a query with a mask",
     .task = "detection",
     .build = [](const Args& model, int64_t classes, const Args& criterion) -> std::shared_ptr<Module> {
       SetDetectorOptions options;
       options.classes = classes;
       options.criterion = CriterionOptions::read(criterion);
       options.criterion.terms.push_back({"mask", 5});
       options.criterion.terms.push_back({"dice", 5});
       const int64_t dim = model.get_section("transformer").get_int("hidden_dim");
       return std::make_shared<CellMasks>(options, build_backbone(model.get_section("backbone"), {2, 4}),
                                          dim);
     },
     .has_masks = true});

}  // namespace
}  // namespace saccade
