#include "models/detection/criterion.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace saccade {
namespace {

MatchedQueries matched_queries(const LayerPrediction& p, const std::vector<MatchedPair>& pairs,
                               const std::vector<Target>& targets, bool binary) {
  MatchedQueries out;
  std::vector<float> boxes;
  const int64_t Q = p.logits.dim(1);
  for (const MatchedPair& m : pairs) {
    const Target& t = targets[static_cast<size_t>(m.image)];
    out.rows.push_back(m.image * Q + m.query);
    out.labels.push_back(binary ? 0 : t.labels[static_cast<size_t>(m.object)]);
    boxes.insert(boxes.end(), t.boxes.begin() + m.object * 4, t.boxes.begin() + m.object * 4 + 4);
  }
  const auto P = static_cast<int64_t>(out.rows.size());
  out.indices = Tensor::from<int64_t>({P}, out.rows, p.logits.device());
  out.truth = Tensor::from<float>({P, 4}, boxes, p.logits.device());
  return out;
}

// class_error and cardinality_error, see SetCriterion::forward.
void add_metrics(const Shape& shape, const float* values, const std::vector<MatchedPair>& matched,
                 const std::vector<Target>& targets, int64_t groups, const ClassLoss& class_loss,
                 DetectionLoss& result) {
  int64_t N = shape[0], Q = shape[1], K = shape[2];
  auto best_class = [&](int64_t n, int64_t q) {
    const float* row = values + (n * Q + q) * K;
    return std::max_element(row, row + K) - row;
  };
  double wrong = 0, pairs = 0, difference = 0;
  for (const MatchedPair& m : matched) {
    if (m.query >= Q / groups) continue;
    ++pairs;
    wrong += best_class(m.image, m.query) !=
             targets[static_cast<size_t>(m.image)].labels[static_cast<size_t>(m.object)];
  }
  for (int64_t n = 0; n < N && K > 0; ++n) {
    double seen = 0;
    for (int64_t q = 0; q < Q / groups; ++q) {
      int64_t k = best_class(n, q);
      seen += class_loss.sees_object(values + (n * Q + q) * K, K, k);
    }
    difference += std::abs(seen - static_cast<double>(targets[static_cast<size_t>(n)].labels.size()));
  }
  result.metrics.emplace_back("class_error", 100 * wrong / std::max(pairs, 1.0));
  result.metrics.emplace_back("cardinality_error", difference / std::max(static_cast<double>(N), 1.0));
}

}  // namespace

CriterionOptions CriterionOptions::read(const Args& s) {
  CriterionOptions o;
  o.class_loss = s.get_string("class_loss");
  o.class_weight = s.get_float("class_weight");
  o.bbox_weight = s.get_float("bbox_weight");
  o.giou_weight = s.get_float("giou_weight");
  o.focal_alpha = s.get_float("focal_alpha");
  o.focal_gamma = s.get_float("focal_gamma");
  o.matcher.focal_alpha = s.get_float("cost_alpha", o.focal_alpha);
  o.matcher.focal_gamma = s.get_float("cost_gamma", o.focal_gamma);
  o.no_object_weight = s.get_float("no_object_weight");
  o.extra_group_repeat = s.get_int("extra_group_repeat");
  o.matcher.class_cost = s.get_float("cost_class");
  o.matcher.bbox_cost = s.get_float("cost_bbox");
  o.matcher.giou_cost = s.get_float("cost_giou");
  return o;
}

SetCriterion::SetCriterion(const CriterionOptions& options)
    : options_(options),
      class_loss_(class_losses().find(options.class_loss, "criterion.class_loss").make(options)) {
  options_.matcher.probabilities = class_loss_->matches_probabilities();
}

DetectionLoss SetCriterion::forward(const DetectorOutput& output, const std::vector<Target>& targets,
                                    double objects) const {
  const CriterionOptions& o = options_;
  SACCADE_CHECK(!output.layers.empty(), "[criterion] the model made no prediction");
  if (objects == 0)
    for (const Target& t : targets) objects += static_cast<double>(t.labels.size());
  objects = std::max(objects, 1.0);

  // The last layer first, then the earlier ones, then the proposals.
  const int64_t groups = output.query_groups;
  std::vector<LayerPrediction> predictions;
  std::vector<std::string> suffixes;
  std::vector<MatchLayer> layers;
  auto add_layer = [&](const LayerPrediction& p, std::string suffix, MatchLayer layer) {
    layer.logits = p.logits.value();
    layer.boxes = p.boxes.value();
    layer.fetch_logits = layers.empty();
    predictions.push_back(p);
    suffixes.push_back(std::move(suffix));
    layers.push_back(std::move(layer));
  };
  MatchLayer decoder{.groups = groups, .repeat = o.extra_group_repeat};
  add_layer(output.layers.back(), "", decoder);
  for (size_t l = 0; o.aux && l + 1 < output.layers.size(); ++l) {
    decoder.name = fmt::format("layer {}", l);
    add_layer(output.layers[l], fmt::format("_{}", l), decoder);
  }
  if (output.encoder.logits.defined())
    add_layer(output.encoder, "_enc", {.binary = !output.encoder_classes, .name = "the proposals"});
  Matching matching = match(layers, targets, o.matcher);

  DetectionLoss result;
  auto add_losses = [&](const LayerPrediction& p, const std::vector<MatchedPair>& pairs, bool binary,
                        double divisor, const std::string& suffix) {
    MatchedQueries queries = matched_queries(p, pairs, targets, binary);
    Var matched = index_select(reshape(p.boxes, {p.boxes.dim(0) * p.boxes.dim(1), 4}), queries.indices);
    queries.boxes = matched.value();
    ClassLoss::Sum of_class = class_loss_->sum(p.logits, queries, divisor);
    auto add_part = [&](const char* name, const Var& sum, double factor) {
      Var part = mul_scalar(sum, factor);
      result.parts.emplace_back(name + suffix, part.value());
      result.total = result.total.defined() ? add(result.total, part) : part;
    };
    add_part("class", of_class.sum, o.class_weight / of_class.divisor);
    add_part("bbox", l1_loss(matched, queries.truth), o.bbox_weight / divisor);
    add_part("giou", giou_loss(matched, queries.truth), o.giou_weight / divisor);
  };
  for (size_t l = 0; l < layers.size(); ++l) {
    double times_matched = 1 + static_cast<double>((layers[l].groups - 1) * layers[l].repeat);
    add_losses(predictions[l], matching.layers[l], layers[l].binary, objects * times_matched, suffixes[l]);
  }
  const DenoisingOutput& dn = output.denoising;
  for (size_t l = dn.layers.size(); l-- > 0;) {
    const bool last = l + 1 == dn.layers.size();
    if (last || o.aux)
      add_losses(dn.layers[l], dn.pairs, false, objects * static_cast<double>(dn.groups),
                 last ? "_dn" : fmt::format("_dn_{}", l));
  }
  add_metrics(layers[0].logits.shape(), matching.logits[0], matching.layers[0], targets, groups, *class_loss_,
              result);
  result.problems = std::move(matching.problems);
  result.bad_images = std::move(matching.bad_images);
  if (!result.problems.empty())
    result.total = mul_scalar(result.total, std::numeric_limits<double>::quiet_NaN());
  return result;
}

}  // namespace saccade
