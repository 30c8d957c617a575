#include "models/detr/detr.h"

#include "layers/module_scope.h"
#include "models/build.h"
#include "models/common/token_maps.h"

namespace saccade {

class Detr::Transformer : public Module {
 public:
  explicit Transformer(const TransformerOptions& o) {
    encoder = make_child<TransformerEncoder>("encoder", o, "multi_head_attention");
    decoder = make_child<TransformerDecoder>("decoder", o);
  }
  std::string type_name() const override { return "Transformer"; }

  std::shared_ptr<TransformerEncoder> encoder;
  std::shared_ptr<TransformerDecoder> decoder;
};

Detr::Detr(const DetrOptions& options, std::shared_ptr<Backbone> backbone)
    : SetDetector(options), options_(options), backbone_(std::move(backbone)) {
  const TransformerOptions& o = options.transformer;
  query_embed_ = make_child<QueryEmbedding>("", options.queries, o.dim, options.extra_query_groups);
  child("backbone.0.body", backbone_);
  if (options.learned_position) position_ = make_child<LearnedPositionEncoding>("backbone.1", o.dim);
  transformer_ = make_child<Transformer>("transformer", o);
  class_embed_ = make_child<Linear>("class_embed", o.dim, logit_columns());
  bbox_embed_ = make_child<Mlp>("bbox_embed", std::vector<int64_t>{o.dim, o.dim, o.dim, 4});
  input_proj_ = make_child<Conv2d>("input_proj", backbone_->channels().back(), o.dim, 1);
}

DetectorOutput Detr::forward(const DetectorInput& input) {
  ModuleScope scope(*this);
  int64_t N = input.images.dim(0), C = options_.transformer.dim;
  Var map = input_proj_->forward(backbone_->forward(input.images).back());
  MapSize level{map.dim(1), map.dim(2)};
  Var tokens = reshape(map, {N, level.cells(), C});
  TokenMaps maps = make_token_maps({level}, input);
  Var position = position_ ? position_->forward(level)
                           : Var(sine_position_encoding(maps.valid[0], level, C, 0, input.images.device()));
  Var memory = transformer_->encoder->forward(tokens, position, maps);

  DetectorOutput output;
  Var queries = query_embed_->forward();
  output.query_groups = query_embed_->groups();
  Shape shape{N, queries.dim(0), C};
  Var target = Var(Tensor::zeros(shape, queries.dtype(), queries.device()));
  Vars decoded = transformer_->decoder->forward(target, expand(queries, shape),
                                                {.key = add(memory, position), .value = memory, .maps = maps},
                                                output.query_groups);
  if (!options_.aux_loss) decoded = {decoded.back()};
  for (const Var& x : decoded)
    output.layers.push_back({class_embed_->forward(x), sigmoid(bbox_embed_->forward(x))});
  return output;
}

namespace {

std::shared_ptr<Module> build_detr(const Args& model, int64_t classes, const Args& criterion) {
  const Args& t = model.get_section("transformer");
  DetrOptions options{.transformer = read_transformer_options(t),
                      .learned_position = t.get_string("position_encoding") == "learned"};
  options.read(t, criterion, classes);
  options.transformer.pre_norm = t.get_bool("pre_norm");
  t.finish("DETR");
  auto backbone = build_backbone(model.get_section("backbone"), {4});
  return std::make_shared<Detr>(options, std::move(backbone));
}

[[maybe_unused]] const bool detr_registered =
    model_types().add({.name = "detr",
                       .summary = "DETR (Carion et al. 2020)",
                       .task = "detection",
                       .file = __FILE__,
                       .build = build_detr,
                       .infer = infer_detr,
                       .preset = "model { transformer { ffn_dim: 2048 queries: 100 levels: 1 } }"
                                 "criterion { class_loss: softmax class_weight: 1 cost_class: 1 }"});

}  // namespace

}  // namespace saccade
