#include "models/detection/criterion.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace saccade {
namespace {

// The matched pairs of a batch as rows of the flattened predictions [N * Q, ...].
struct Pairs {
  std::vector<int64_t> rows, labels;
  std::vector<float> boxes;  // [pairs, 4]
  Pairs(const std::vector<MatchedPair>& matched, const std::vector<Target>& targets, int64_t Q, bool binary) {
    for (const MatchedPair& m : matched) {
      const Target& t = targets[static_cast<size_t>(m.image)];
      rows.push_back(m.image * Q + m.query);
      labels.push_back(binary ? 0 : t.labels[static_cast<size_t>(m.object)]);
      boxes.insert(boxes.end(), t.boxes.begin() + m.object * 4, t.boxes.begin() + m.object * 4 + 4);
    }
  }
};

float iou(const float* a, const float* b) {
  auto overlap = [](float c1, float s1, float c2, float s2) {
    return std::max(0.f, std::min(c1 + s1 / 2, c2 + s2 / 2) - std::max(c1 - s1 / 2, c2 - s2 / 2));
  };
  float both = overlap(a[0], a[2], b[0], b[2]) * overlap(a[1], a[3], b[1], b[3]);
  float either = a[2] * a[3] + b[2] * b[3] - both;
  return either > 0 ? both / either : 0.f;
}

// A sum over the batch and what it is divided by.
struct ClassLoss {
  Var sum;
  double divisor;
};

// `boxes`: the predicted ones on the host, for the varifocal loss.
ClassLoss class_loss(const CriterionOptions& o, const Var& logits, const float* boxes, const Pairs& pairs,
                     double divisor) {
  int64_t N = logits.dim(0), Q = logits.dim(1), K = logits.dim(2);
  Device device = logits.device();
  const bool softmax = o.class_loss == ClassLossKind::kSoftmax;
  std::vector<int64_t> labels(static_cast<size_t>(N * Q), softmax ? K - 1 : -1);
  for (size_t i = 0; i < pairs.rows.size(); ++i) labels[static_cast<size_t>(pairs.rows[i])] = pairs.labels[i];
  Tensor label_tensor = Tensor::from<int64_t>({N, Q}, labels, device);
  if (o.class_loss == ClassLossKind::kFocal)
    return {sigmoid_focal_loss(logits, label_tensor, o.focal_alpha, o.focal_gamma), divisor};
  if (o.class_loss == ClassLossKind::kVarifocal) {
    std::vector<float> quality(labels.size());
    for (size_t i = 0; i < pairs.rows.size(); ++i)
      quality[static_cast<size_t>(pairs.rows[i])] =
          iou(boxes + pairs.rows[i] * 4, pairs.boxes.data() + i * 4);
    return {varifocal_loss(logits, label_tensor, Tensor::from<float>({N, Q}, quality, device), o.focal_alpha,
                           o.focal_gamma),
            divisor};
  }
  std::vector<float> weights(static_cast<size_t>(K), 1.f);
  weights.back() = static_cast<float>(o.no_object_weight);
  double total_weight = 0;
  for (int64_t label : labels) total_weight += weights[static_cast<size_t>(label)];
  return {cross_entropy(reshape(logits, {N * Q, K}), label_tensor.reshape({N * Q}),
                        Tensor::from<float>({K}, weights, device)),
          std::max(total_weight, 1e-12)};
}

// class_error and cardinality_error, see CriterionResult::metrics.
void add_metrics(const Shape& shape, const float* values, const std::vector<MatchedPair>& matched,
                 const std::vector<Target>& targets, int64_t groups, bool softmax, CriterionResult& result) {
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
      seen += softmax ? k != K - 1 : values[(n * Q + q) * K + k] > 0;
    }
    difference += std::abs(seen - static_cast<double>(targets[static_cast<size_t>(n)].labels.size()));
  }
  result.metrics.emplace_back("class_error", 100 * wrong / std::max(pairs, 1.0));
  result.metrics.emplace_back("cardinality_error", difference / std::max(static_cast<double>(N), 1.0));
}

}  // namespace

CriterionResult SetCriterion::forward(const DetectorOutput& output, const std::vector<Target>& targets,
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
    layer.fetch_boxes = o.class_loss == ClassLossKind::kVarifocal;
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
    add_layer(output.encoder, "_enc", {.binary = true, .name = "the proposals"});
  Matching matching = match(layers, targets, o.matcher);

  CriterionResult result;
  for (size_t l = 0; l < layers.size(); ++l) {
    const LayerPrediction& p = predictions[l];
    int64_t N = p.logits.dim(0), Q = p.logits.dim(1);
    Pairs pairs(matching.layers[l], targets, Q, layers[l].binary);
    auto P = static_cast<int64_t>(pairs.rows.size());
    Tensor rows = Tensor::from<int64_t>({P}, pairs.rows, p.logits.device());
    Tensor truth = Tensor::from<float>({P, 4}, pairs.boxes, p.logits.device());
    Var matched = index_select(reshape(p.boxes, {N * Q, 4}), rows);
    double times_matched = 1 + static_cast<double>((layers[l].groups - 1) * layers[l].repeat);
    double divisor = objects * times_matched;
    ClassLoss of_class = class_loss(o, p.logits, matching.fetched[l].boxes, pairs, divisor);
    auto add_part = [&](const char* name, const Var& sum, double factor) {
      Var part = mul_scalar(sum, factor);
      result.parts.emplace_back(name + suffixes[l], part.value());
      result.total = result.total.defined() ? add(result.total, part) : part;
    };
    add_part("class", of_class.sum, o.class_weight / of_class.divisor);
    add_part("bbox", l1_loss(matched, truth), o.bbox_weight / divisor);
    add_part("giou", giou_loss(matched, truth), o.giou_weight / divisor);
  }
  add_metrics(layers[0].logits.shape(), matching.fetched[0].logits, matching.layers[0], targets, groups,
              o.class_loss == ClassLossKind::kSoftmax, result);
  result.problems = std::move(matching.problems);
  result.bad_images = std::move(matching.bad_images);
  if (!result.problems.empty())
    result.total = mul_scalar(result.total, std::numeric_limits<double>::quiet_NaN());
  return result;
}

}  // namespace saccade
