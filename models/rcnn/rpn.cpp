#include "models/rcnn/rpn.h"

#include <algorithm>

#include "core/runtime/packed_upload.h"
#include "core/runtime/parallel.h"
#include "core/tensor/execution.h"
#include "models/rcnn/regions.h"
#include "models/rcnn/stage_loss.h"

namespace saccade {
namespace {

// The sampled anchors, as rows of the predictions of all levels,
// ordered by level, then image.
struct DrawnAnchors {
  std::vector<int64_t> rows, labels;  // of all samples; label 0: an object, -1: none
  std::vector<float> weights;         // 1 / the number of the image's samples
  std::vector<int64_t> object_rows;   // those that stand for an object
  std::vector<float> deltas, object_weights;

  void add(const SampledAnchors& image, int64_t n, const FeatureLevels& maps, int64_t N,
           const RpnOptions& options) {
    const Sample& sample = image.sample;
    const auto weight =
        1 / static_cast<float>(std::max<size_t>(sample.positives.size() + sample.negatives.size(), 1));
    auto row_of = [&](int64_t i) {
      const auto [level, y, x, anchor] = options.anchors.position(image.maps, i);
      const MapSize& map = maps[level];
      return ((N * maps.start(level) + n * map.cells()) + y * map.width + x) * options.anchors.per_cell() +
             anchor;
    };
    for (size_t k = 0; k < sample.positives.size(); ++k) {
      const int64_t i = sample.positives[k];
      rows.push_back(row_of(i));
      labels.push_back(0);
      weights.push_back(weight);
      object_rows.push_back(rows.back());
      object_weights.push_back(weight);
      const int32_t object = image.stands[k];
      const auto anchor = options.anchors.box(image.size, options.anchors.position(image.maps, i));
      const auto moved = options.coder.encode(anchor.data(), image.objects.data() + 4 * object);
      deltas.insert(deltas.end(), moved.begin(), moved.end());
    }
    for (int64_t i : sample.negatives) {
      rows.push_back(row_of(i));
      labels.push_back(-1);
      weights.push_back(weight);
    }
  }
};

}  // namespace

SampledAnchors::SampledAnchors(const Target& target, const RpnOptions& options, uint64_t key)
    : image_id(target.image_id), rng_key(key) {
  AnchorTargets image(options.anchors, target, options.assigner, options.inside);
  size = image.size;
  maps = image.maps;
  sample = sample_candidates(image.stands, options.sampler, key, image_id, "rpn");
  for (int64_t i : sample.positives) stands.push_back(image.stands[static_cast<size_t>(i)]);
  objects = std::move(image.objects);
}

void Rpn::prepare(const Target& target, uint64_t rng_key) const {
  sampled_.keep(std::make_shared<const SampledAnchors>(target, options_, rng_key));
}

std::shared_ptr<const SampledAnchors> Rpn::sampled(const Target& target, uint64_t key) const {
  const std::vector<float> objects = corners_of_objects(target);
  const auto kept = sampled_.find(
      [&](const SampledAnchors& s) {
        return s.image_id == target.image_id && s.rng_key == key &&
               s.size == ImageSize{target.height, target.width} && s.objects == objects;
      },
      true);
  return kept ? kept : std::make_shared<const SampledAnchors>(target, options_, key);
}

Rpn::Rpn(int64_t channels, const RpnOptions& options) : options_(options) {
  const Conv2dInit init{.weight = init::normal(0, 0.01), .bias_values = init::constant(0)};
  const int64_t A = options.anchors.per_cell();
  conv_ = make_child<Conv2d>("rpn_conv", channels, channels, 3, Conv2dOptions{.padding = 1}, init);
  class_ = make_child<Conv2d>("rpn_cls", channels, A, 1, Conv2dOptions{}, init);
  box_ = make_child<Conv2d>("rpn_reg", channels, 4 * A, 1, Conv2dOptions{}, init);
}

RpnOutput Rpn::forward(const Vars& levels) const {
  RpnOutput output;
  for (const Var& level : levels) {
    const Var map = conv_(level, Activation::kRelu);
    output.logits.push_back(cast(class_(map), DType::kF32));
    output.deltas.push_back(cast(box_(map), DType::kF32));
    output.maps.push_back({map.dim(1), map.dim(2)});
  }
  return output;
}

Tensors Rpn::anchors_of(const RpnOutput& output) const {
  const Device device = output.logits[0].device();
  CacheKey key;
  key.add(static_cast<int>(device), output.maps[0].height, output.maps[0].width);
  return constants_.get(key, [&] {
    const int64_t stride = options_.anchors.stride(0), A = options_.anchors.per_cell();
    const std::vector<float> all =
        options_.anchors.boxes({output.maps[0].height * stride, output.maps[0].width * stride});
    Tensors levels;
    for (int64_t l = 0; l < output.maps.size(); ++l) {
      const int64_t first = output.maps.start(l) * A, count = output.maps[l].cells() * A;
      const std::span<const float> own(all.data() + 4 * first, static_cast<size_t>(4 * count));
      levels.push_back(Tensor::from<float>({count, 4}, own, device));
    }
    return levels;
  });
}

Tensors Rpn::padding_of(const RpnOutput& output, const std::vector<ImageSize>& sizes) const {
  const auto fills = [&](const ImageSize& size) { return options_.anchors.maps(size)[0] == output.maps[0]; };
  if (std::ranges::all_of(sizes, fills)) return Tensors(output.logits.size());
  const Device device = output.logits[0].device();
  CacheKey key;
  key.add(static_cast<int>(device), output.maps[0].height, output.maps[0].width);
  for (const ImageSize& size : sizes) key.add(size.height, size.width);
  return constants_.get(key, [&] {
    const int64_t N = std::ssize(sizes), A = options_.anchors.per_cell();
    Tensors levels;
    for (int64_t l = 0; l < output.maps.size(); ++l) {
      const Tensor padding = options_.anchors.padding(l, output.maps[l], sizes, A);
      levels.push_back(padding.reshape({N, output.maps[l].cells() * A}).to(device));
    }
    return levels;
  });
}

ProposedRegions Rpn::propose(const RpnOutput& output, const std::vector<ImageSize>& sizes,
                             const Tensor& limits) const {
  ModuleScope scope(*this);
  const NoGrad no_grad;
  const int64_t N = std::ssize(sizes), A = options_.anchors.per_cell();
  const Device device = output.logits[0].device();
  const Tensors all_anchors = anchors_of(output), padding = padding_of(output, sizes);
  Vars boxes, scores, groups;
  for (int64_t l = 0; l < output.maps.size(); ++l) {
    const int64_t anchors = output.maps[l].cells() * A;
    const auto level = static_cast<size_t>(l);
    Var logits = reshape(output.logits[level].detach(), {N, anchors});
    if (padding[level].defined()) logits = masked_fill(logits, padding[level], 10 * kLeftOut);
    const BestRows best = best_rows(logits, training() ? options_.train_candidates : options_.candidates);
    const int64_t count = best.indices.dim(1);
    const Var moved = best.of(reshape(output.deltas[level].detach(), {N, anchors, 4}));
    const Var base = best.of(expand(reshape(Var(all_anchors[level]), {1, anchors, 4}), {N, anchors, 4}));
    boxes.push_back(options_.coder.decode(moved, base.value()));
    scores.push_back(reshape(best.of(reshape(logits, {N, anchors, 1})), {N, count}));
    groups.emplace_back(Tensor::full({N, count}, static_cast<double>(l), DType::kF32, device));
  }
  const Var all = cut_boxes(concat(boxes, 1), limits);
  const Var left = suppressed(all, without_flat(all, concat(scores, 1)), concat(groups, 1),
                              output.maps.size(), options_.nms);
  const BestRows best = best_rows(left, training() ? options_.train_proposals : options_.proposals);
  const int64_t K = best.indices.dim(1);
  return {best.of(all), reshape(best.of(reshape(left, {N, left.dim(1), 1})), {N, K})};
}

RpnLoss Rpn::loss(const RpnOutput& output, const std::vector<Target>& targets, const StepImages& step) const {
  ModuleScope scope(*this);
  const int64_t N = std::ssize(targets);
  std::vector<std::shared_ptr<const SampledAnchors>> images(targets.size());
  const uint64_t key = execution().rng_key;
  parallel_for(N, 1, [&](int64_t begin, int64_t end) {
    for (auto n = static_cast<size_t>(begin); n < static_cast<size_t>(end); ++n)
      images[n] = sampled(targets[n], key);
  });
  DrawnAnchors drawn;
  for (int64_t n = 0; n < N; ++n) drawn.add(*images[static_cast<size_t>(n)], n, output.maps, N, options_);
  const int64_t R = std::ssize(drawn.rows), P = std::ssize(drawn.object_rows);
  PackedUpload upload;
  upload.add(Shape{R}, drawn.rows);
  upload.add(Shape{R}, drawn.labels);
  upload.add(Shape{R}, drawn.weights);
  upload.add(Shape{P}, drawn.object_rows);
  upload.add(Shape{P, 4}, drawn.deltas);
  upload.add(Shape{P}, drawn.object_weights);
  const std::vector<Tensor> t = upload.upload(output.logits[0].device());
  auto rows_of = [](const Vars& all, int64_t columns, const Tensor& rows) {
    return index_select(rows_of_levels(all, columns), rows);
  };
  const double parts = 1 / static_cast<double>(std::max<int64_t>(step.images(), 1));
  return {weighted_binary_cross_entropy(rows_of(output.logits, 1, t[0]), t[1], t[2], parts),
          weighted_l1(rows_of(output.deltas, 4, t[3]), t[4], t[5], parts, options_.smooth)};
}

}  // namespace saccade
