#include "train/criterion.h"

#include <algorithm>

namespace saccade {
namespace {

// The pairs of a whole batch, as rows of the flattened predictions [N * Q, ...] and of the list of all
// objects.
struct Pairs {
  std::vector<int64_t> rows;
  std::vector<int64_t> labels;
  std::vector<float> boxes;  // [pairs, 4]
};

Pairs collect(const LayerPrediction& prediction, const std::vector<Target>& targets,
              const MatcherOptions& matcher, int64_t groups, bool binary) {
  int64_t Q = prediction.logits.dim(1);
  SACCADE_CHECK(Q % groups == 0, "[criterion] {} queries do not split into {} groups", Q, groups);
  Pairs pairs;
  for (int64_t g = 0; g < groups; ++g) {
    int64_t begin = g * (Q / groups), end = begin + Q / groups;
    auto assignments =
        match(prediction.logits.value(), prediction.boxes.value(), targets, matcher, binary, begin, end);
    for (size_t n = 0; n < targets.size(); ++n) {
      const Assignment& a = assignments[n];
      for (size_t i = 0; i < a.rows.size(); ++i) {
        size_t t = static_cast<size_t>(a.columns[i]);
        pairs.rows.push_back(static_cast<int64_t>(n) * Q + begin + a.rows[i]);
        pairs.labels.push_back(binary ? 0 : targets[n].labels[t]);
        const float* box = targets[n].boxes.data() + t * 4;
        pairs.boxes.insert(pairs.boxes.end(), box, box + 4);
      }
    }
  }
  return pairs;
}

float iou(const float* a, const float* b) {
  auto overlap = [](float c1, float s1, float c2, float s2) {
    return std::max(0.f, std::min(c1 + s1 / 2, c2 + s2 / 2) - std::max(c1 - s1 / 2, c2 - s2 / 2));
  };
  float both = overlap(a[0], a[2], b[0], b[2]) * overlap(a[1], a[3], b[1], b[3]);
  float either = a[2] * a[3] + b[2] * b[3] - both;
  return either > 0 ? both / either : 0.f;
}

}  // namespace

CriterionResult SetCriterion::forward(const DetectorOutput& output, const std::vector<Target>& targets,
                                      double objects) const {
  SACCADE_CHECK(!output.layers.empty(), "[criterion] the model made no prediction");
  if (objects == 0)
    for (const Target& t : targets) objects += static_cast<double>(t.labels.size());
  objects = std::max(objects, 1.0);
  CriterionResult result;
  add_layer(output.layers.back(), targets, objects, output.query_groups, false, "", result);
  for (size_t l = 0; l + 1 < output.layers.size(); ++l)
    add_layer(output.layers[l], targets, objects, output.query_groups, false, "_" + std::to_string(l),
              result);
  if (output.encoder.logits.defined()) add_layer(output.encoder, targets, objects, 1, true, "_enc", result);
  return result;
}

void SetCriterion::add_layer(const LayerPrediction& prediction, const std::vector<Target>& targets,
                             double objects, int64_t groups, bool binary, const std::string& suffix,
                             CriterionResult& result) const {
  const CriterionOptions& o = options_;
  int64_t N = prediction.logits.dim(0), Q = prediction.logits.dim(1), K = prediction.logits.dim(2);
  Device device = prediction.logits.device();
  Pairs pairs = collect(prediction, targets, o.matcher, groups, binary);
  int64_t P = static_cast<int64_t>(pairs.rows.size());
  Tensor rows = Tensor::from<int64_t>({P}, pairs.rows, device);
  Tensor truth = Tensor::from<float>({P, 4}, pairs.boxes, device);
  Var matched = index_select(reshape(prediction.boxes, {N * Q, 4}), rows);
  double scale = 1 / (objects * static_cast<double>(groups));

  const bool softmax = o.class_loss == ClassLossKind::kSoftmax;
  std::vector<int64_t> labels(static_cast<size_t>(N * Q), softmax ? K - 1 : -1);
  for (size_t i = 0; i < pairs.rows.size(); ++i) labels[static_cast<size_t>(pairs.rows[i])] = pairs.labels[i];
  Tensor label_tensor = Tensor::from<int64_t>({N, Q}, labels, device);
  Var class_loss;
  double class_scale = scale;
  switch (o.class_loss) {
    case ClassLossKind::kFocal:
      class_loss = sigmoid_focal_loss(prediction.logits, label_tensor, o.focal_alpha, o.focal_gamma);
      break;
    case ClassLossKind::kVarifocal: {
      std::vector<float> quality(static_cast<size_t>(N * Q)), boxes = matched.value().to_vector<float>();
      for (size_t i = 0; i < pairs.rows.size(); ++i)
        quality[static_cast<size_t>(pairs.rows[i])] = iou(boxes.data() + i * 4, pairs.boxes.data() + i * 4);
      class_loss = varifocal_loss(prediction.logits, label_tensor,
                                  Tensor::from<float>({N, Q}, quality, device), o.focal_alpha, o.focal_gamma);
      break;
    }
    case ClassLossKind::kSoftmax: {
      std::vector<float> weights(static_cast<size_t>(K), 1.f);
      weights.back() = static_cast<float>(o.no_object_weight);
      double total_weight = 0;
      for (int64_t label : labels) total_weight += weights[static_cast<size_t>(label)];
      class_loss = cross_entropy(reshape(prediction.logits, {N * Q, K}), label_tensor.reshape({N * Q}),
                                 Tensor::from<float>({K}, weights, device));
      class_scale = 1 / std::max(total_weight, 1e-12);
      break;
    }
  }
  auto add_part = [&](const char* name, const Var& sum, double factor) {
    Var part = mul_scalar(sum, factor);
    result.parts.emplace_back(name + suffix, part.value().item());
    result.total = result.total.defined() ? add(result.total, part) : part;
  };
  add_part("class", class_loss, o.class_weight * class_scale);
  add_part("bbox", l1_loss(matched, truth), o.bbox_weight * scale);
  add_part("giou", giou_loss(matched, truth), o.giou_weight * scale);
}

}  // namespace saccade
