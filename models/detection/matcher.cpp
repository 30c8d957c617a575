#include "models/detection/matcher.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/scope.h"
#include "core/kernels/match_cost/match_cost.h"
#include "core/kernels/softmax/softmax.h"
#include "core/runtime/packed_upload.h"
#include "core/runtime/parallel.h"

namespace saccade {
namespace {

constexpr float kUnusable = 1e30f;  // cost of a broken prediction

// The objects on the device of the predictions.
struct DeviceObjects {
  Tensor images, labels, zeros, boxes;
  DeviceObjects(const Objects& objects, Device device) {
    const int64_t R = objects.count();
    PackedUpload tables;
    tables.add(Shape{R}, objects.images);
    tables.add(Shape{R}, objects.labels);
    tables.add(Shape{R}, std::vector<int64_t>(static_cast<size_t>(R)));
    tables.add(Shape{R, 4}, objects.boxes);
    const std::vector<Tensor> there = tables.upload(device);
    images = there[0], labels = there[1], zeros = there[2], boxes = there[3];
  }
};

// cost: f32 [R, Q]
void layer_costs(const MatchLayer& layer, const DeviceObjects& objects, const MatcherOptions& o,
                 Tensor cost) {
  Tensor scores = layer.logits.to(DType::kF32).contiguous();
  if (o.probabilities) {
    Tensor p = scores.empty_like();
    kernels::softmax(scores, p);
    scores = p;
  }
  kernels::match_cost(scores, layer.boxes.to(DType::kF32).contiguous(), objects.images,
                      layer.binary ? objects.zeros : objects.labels, objects.boxes,
                      {o.class_cost, o.bbox_cost, o.giou_cost, o.focal_alpha, o.focal_gamma, o.probabilities},
                      cost);
}

// Adds the costs of masks: for each object and query of an image, the mean cross entropy and the Dice loss
// over the points.
void add_mask_costs(const MatchLayer& layer, const Objects& objects, const MatcherOptions& o,
                    const Tensor& cost) {
  NoGrad no_grad;
  ExecutionScope scope;
  execution().compute = DType::kF32;
  const int64_t N = layer.mask_points.dim(0), Q = layer.mask_points.dim(1), P = layer.mask_points.dim(2);
  const int last[] = {-1};
  for (int64_t n = 0; n < N; ++n) {
    const int64_t begin = objects.begin(n), T = objects.count(n);
    if (T == 0) continue;
    auto of_image = [&](const Tensor& rows) { return Var(rows.slice(0, begin, begin + T)); };
    const Var x(layer.mask_points.select(0, n)), t = of_image(layer.true_points),
                                                 p = sigmoid(x);                         // [Q, P], [T, P]
    const Var surprise = sum(add(relu(x), log(add_scalar(exp(neg(abs(x))), 1))), last);  // softplus, [Q]
    const Var entropy =
        mul_scalar(sub(reshape(surprise, {1, Q}), linear(t, x, {})), 1.0 / static_cast<double>(P));
    const Var both = add(reshape(sum(p, last), {1, Q}), reshape(sum(t, last), {T, 1}));
    const Var overlap = div(add_scalar(mul_scalar(linear(t, p, {}), 2), 1), add_scalar(both, 1));
    const Var costs =
        add(mul_scalar(entropy, o.mask_cost), mul_scalar(add_scalar(neg(overlap), 1), o.dice_cost));
    Tensor rows = cost.slice(0, begin, begin + T);
    rows.copy_from(add(Var(rows), mul(costs, reshape(of_image(layer.mask_weights), {T, 1}))).value());
  }
}

// The offsets of a layer's numbers in the buffer that is copied to the host.
struct Offsets {
  int64_t cost, logits;  // -1 if absent
};

// Returns the first problem of the predictions for image n. It reads from the GPU,
// so only the caller's thread may call it.
std::string find_problem(const MatchLayer& layer, int64_t n) {
  for (auto [tensor, what] : {std::pair{&layer.boxes, "box"}, std::pair{&layer.logits, "score"}}) {
    std::vector<float> values = tensor->select(0, n).to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(values[i]))
        return fmt::format("the predicted {} of query {} is not finite", what,
                           static_cast<int64_t>(i) / tensor->dim(2));
  }
  return "the cost of its predictions overflows";
}

// Matches the T objects of image n in every query group. cost [T, Q]:
// values that are not finite become kUnusable and set `broken`.
std::vector<MatchedPair> match_image(const MatchLayer& layer, int64_t n, int64_t T, float* cost,
                                     char& broken) {
  int64_t Q = layer.logits.dim(1), G = Q / layer.groups;
  for (int64_t k = 0; k < T * Q; ++k) {
    if (std::isfinite(cost[k])) continue;
    cost[k] = kUnusable;
    broken = 1;
  }
  std::vector<MatchedPair> pairs;
  for (int64_t g = 0; g < layer.groups; ++g) {
    int64_t rows = g == 0 ? T : T * layer.repeat;
    Assignment a = assign_strided(cost + g * G, Q, T, rows, G);
    auto group = std::ssize(pairs);
    for (size_t k = 0; k < a.rows.size(); ++k) pairs.push_back({n, g * G + a.columns[k], a.rows[k] % T});
    std::ranges::sort(pairs.begin() + group, pairs.end(), {}, &MatchedPair::query);
  }
  return pairs;
}

}  // namespace

Matching match(const std::vector<MatchLayer>& layers, const std::vector<Target>& targets,
               const MatcherOptions& options) {
  int64_t N = static_cast<int64_t>(targets.size()), L = static_cast<int64_t>(layers.size());
  const Objects objects(targets);
  for (const MatchLayer& layer : layers) {
    const Shape& s = layer.logits.shape();
    SACCADE_CHECK(s.rank() == 3 && s[0] == N && layer.boxes.shape() == Shape({N, s[1], 4}),
                  "[matcher] logits {} and boxes {} for {} targets, expected [N, Q, K] and [N, Q, 4]",
                  s.to_string(), layer.boxes.shape().to_string(), N);
    SACCADE_CHECK(layer.groups >= 1 && layer.repeat >= 1 && s[1] % layer.groups == 0,
                  "[matcher] {} queries do not split into {} groups (repeat {})", s[1], layer.groups,
                  layer.repeat);
    check_objects(objects, targets, layer.binary ? INT64_MAX : s[2]);
  }
  Matching result;
  std::vector<Offsets> offsets;
  int64_t size = 0;
  for (const MatchLayer& layer : layers) {
    int64_t fetched = layer.fetch_logits ? layer.logits.numel() : 0;
    int64_t costs = objects.count() * layer.logits.dim(1);
    offsets.push_back({size, layer.fetch_logits ? size + costs : -1});
    size += costs + fetched;
  }
  const Device device = layers.empty() ? Device::kCpu : layers[0].logits.device();
  Tensor all = Tensor::empty({size}, DType::kF32, device);
  auto part = [&](int64_t begin, const Shape& shape) {
    return all.slice(0, begin, begin + shape.numel()).reshape(shape);
  };
  DeviceObjects on_device(objects, device);
  for (size_t l = 0; l < layers.size(); ++l) {
    const MatchLayer& layer = layers[l];
    layer_costs(layer, on_device, options, part(offsets[l].cost, {objects.count(), layer.logits.dim(1)}));
    if (layer.mask_points.defined())
      add_mask_costs(layer, objects, options, part(offsets[l].cost, {objects.count(), layer.logits.dim(1)}));
    if (offsets[l].logits >= 0) part(offsets[l].logits, layer.logits.shape()).copy_from(layer.logits);
  }
  result.copied = HostCopy(all);
  float* numbers = result.copied.data<float>();
  for (const Offsets& o : offsets) result.logits.push_back(o.logits < 0 ? nullptr : numbers + o.logits);

  // One assignment problem per layer, image and group; they share nothing,
  // so threads may solve them in any order.
  std::vector<std::vector<std::vector<MatchedPair>>> pairs(layers.size());
  std::vector<std::vector<char>> broken(layers.size());
  for (size_t l = 0; l < layers.size(); ++l) {
    pairs[l].resize(targets.size());
    broken[l].resize(targets.size());
  }
  parallel_for(L * N, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto l = static_cast<size_t>(i / N), n = static_cast<size_t>(i % N);
      const MatchLayer& layer = layers[l];
      int64_t T = objects.count(i % N), Q = layer.logits.dim(1);
      if (T == 0 || Q == 0) continue;
      float* cost = numbers + offsets[l].cost + objects.begin(i % N) * Q;
      pairs[l][n] = match_image(layer, i % N, T, cost, broken[l][n]);
    }
  });

  for (size_t l = 0; l < layers.size(); ++l) {
    std::vector<MatchedPair>& matched = result.layers.emplace_back();
    for (const auto& of_image : pairs[l]) matched.insert(matched.end(), of_image.begin(), of_image.end());
  }
  for (size_t n = 0; n < targets.size(); ++n) {
    bool bad = false;
    for (size_t l = 0; l < layers.size(); ++l) {
      if (!broken[l][n]) continue;
      result.problems.push_back(fmt::format("{}, {}: {}", name_of_image(targets[n]), layers[l].name,
                                            find_problem(layers[l], static_cast<int64_t>(n))));
      bad = true;
    }
    if (bad) result.bad_images.push_back(targets[n].image_id);
  }
  return result;
}

}  // namespace saccade
