#include "models/d_fine/decoder.h"

#include "models/common/deformable_tokens.h"

namespace saccade {
namespace {

constexpr int64_t kBestBins = 4, kHiddenQuality = 64;
constexpr double kMaxPosition = 10;

}  // namespace

// How sharp the distributions of a box are says how good it is: what is added to its logits ("LQE",
// section 3.1).
class DFineDecoder::QualityHead : public Module {
 public:
  explicit QualityHead(Activation activation) {
    const LinearOptions zero{.weight_init = init::constant(0), .bias_init = init::constant(0)};
    reg_conf_ = make_child<Mlp>("reg_conf", std::vector{kSides * (kBestBins + 1), kHiddenQuality, int64_t{1}},
                                MlpOptions{.activation = activation, .last = zero});
  }
  // probabilities [N, Q, 4, R + 1] -> [N, Q, 1]
  Var forward(const Var& probabilities) const {
    const int64_t N = probabilities.dim(0), Q = probabilities.dim(1), bins = probabilities.dim(3);
    const Var bins_of_sides = reshape(probabilities, {N * Q * kSides, bins, 1});
    const Tensor best = best_tokens(bins_of_sides.value(), 1, kBestBins);
    Var top = reshape(gather_rows(bins_of_sides, best), {N, Q, kSides, kBestBins});
    const int last[] = {-1};
    top = concat({top, mean(top, last, true)}, -1);
    return reg_conf_(reshape(top, {N, Q, kSides * (kBestBins + 1)}));
  }

 private:
  Child<Mlp> reg_conf_;
};

DFineDecoder::DFineDecoder(int64_t channels, const DFineDecoderOptions& options)
    : HybridDecoder(options), options_(options) {
  const TransformerOptions& o = options.transformer;
  if (channels != o.dim) make_projections(channels);
  up_ = param("up", {1}, init::constant(0.5), false);
  bin_scale_ = param("reg_scale", {1}, init::constant(options.bin_scale), false);
  alias("decoder.up", up_);
  alias("decoder.reg_scale", bin_scale_);
  make_layers();
  const LinearOptions xavier{.weight_init = init::xavier_uniform()};
  query_pos_head_ = make_child<Mlp>("query_pos_head", std::vector{int64_t{4}, 2 * o.dim, o.dim},
                                    MlpOptions{.activation = o.activation, .linear = xavier});
  make_query_selection();
  pre_bbox_head_ = child("pre_bbox_head", make_refining_head(o.dim, 4, o.activation));
  for (int64_t i = 0; i < o.decoder_layers; ++i) {
    add_score_head(i);
    dec_bbox_head_.push_back(child(fmt::format("dec_bbox_head.{}", i),
                                   make_refining_head(o.dim, kSides * (options.bins + 1), o.activation)));
    quality_heads_.push_back(std::make_shared<QualityHead>(o.activation));
    decoder_->add_head_names(fmt::format("lqe_layers.{}", i), quality_heads_.back());
  }
}

void DFineDecoder::decode(const DecoderQueries& q, const LevelTokens& tokens, bool record,
                          SetOutput& output) {
  const int64_t N = q.target.dim(0), Q = q.target.dim(1), count = options_.transformer.decoder_layers;
  const BinScale bins = make_bin_scale(up_, bin_scale_, options_.bins);
  Var ratios = Var(tokens.maps.valid_ratios.unsqueeze(1));  // [N, 1, L, 2]
  ratios = concat({ratios, ratios}, -1);
  Var target = q.target, reference = sigmoid(q.reference), first, corners, before;
  for (int64_t i = 0; i < count; ++i) {
    const auto layer = static_cast<size_t>(i);
    const Var position = clamp(query_pos_head_(reference), -kMaxPosition, kMaxPosition);
    target = decoder_->layer(i)(
        target, position, attend_to(tokens, mul(reshape(reference, {N, Q, 1, 4}), ratios), record, output),
        q.groups);
    if (i == 0) {
      const Var box = sigmoid(add(pre_bbox_head_(target), inverse_sigmoid(reference)));
      if (training()) set_first(output, q.denoising, {dec_score_head_[0](target), box});
      first = box.detach();
    }
    // The logits of a layer are what it adds to those of the layer before.
    const Var refined = dec_bbox_head_[layer](i == 0 ? target : add(target, before));
    corners = i == 0 ? refined : add(refined, corners);
    before = target.detach();
    const Var probabilities = side_probabilities(corners), box = boxes_of_sides(probabilities, first, bins);
    if (training() || i + 1 == count)
      add_layer(output, q.denoising,
                {.logits = add(dec_score_head_[layer](target), quality_heads_[layer](probabilities)),
                 .boxes = box,
                 .sides = {corners, first, bins.values, bins.scale}});
    reference = box.detach();
  }
}

}  // namespace saccade
