#include <algorithm>

#include "core/runtime/parallel.h"
#include "models/detection/objects.h"
#include "models/pyramid/anchor_targets.h"
#include "models/retinanet/dense_output.h"

namespace saccade {
namespace {

constexpr MaxIouOptions kAssigner{.positive = 0.5, .negative = 0.4};
// A logit whose background loss is exactly 0, and so is its gradient.
constexpr double kNoLogit = -1e4;

// The anchors of a batch in the order of the losses: by level, then image.
struct AnchorTables {
  Tensor labels;              // i64 [anchors of all images]: a class, or -1
  Tensor ignored;             // bool, likewise
  std::vector<int64_t> rows;  // of the anchors that stand for an object
  std::vector<float> deltas;  // [rows, 4]
};

AnchorTables make_tables(const DenseOutput& output, const std::vector<Target>& targets,
                         const std::vector<KeptAnchorTargets::Pointer>& images) {
  const DenseOptions& o = *output.options;
  const int64_t N = std::ssize(targets), A = o.anchors.per_cell(), anchors = N * output.maps.tokens() * A;
  AnchorTables t;
  t.labels = Tensor::full({anchors}, -1, DType::kI64);
  t.ignored = Tensor::full({anchors}, 1, DType::kBool);  // this stays so for the padding
  int64_t* labels = t.labels.data<int64_t>();
  bool* ignored = t.ignored.data<bool>();
  for (int64_t l = 0; l < output.maps.size(); ++l)
    for (int64_t n = 0; n < N; ++n) {
      const AnchorTargets& image = *images[static_cast<size_t>(n)];
      const MapSize map = output.maps[l], own = image.maps[l];
      auto at = static_cast<size_t>(image.maps.start(l) * A);
      for (int64_t y = 0; y < own.height; ++y) {
        int64_t row = (N * output.maps.start(l) + (n * map.height + y) * map.width) * A;
        for (int64_t i = 0; i < own.width * A; ++i, ++row, ++at) {
          const int32_t object = image.stands[at];
          ignored[row] = object == kIgnored;
          if (object < 0) continue;
          labels[row] = targets[static_cast<size_t>(n)].instances[static_cast<size_t>(object)].label;
          t.rows.push_back(row);
          const auto anchor =
              o.anchors.box(image.size, o.anchors.position(image.maps, static_cast<int64_t>(at)));
          const auto deltas =
              o.coder.encode(anchor.data(), image.objects.data() + 4 * static_cast<size_t>(object));
          t.deltas.insert(t.deltas.end(), deltas.begin(), deltas.end());
        }
      }
    }
  return t;
}

// Returns `rows`, or makes them from the levels.
Var rows_of(const Var& rows, const Vars& levels, int64_t columns) {
  return rows.defined() ? rows : rows_of_levels(levels, columns);
}

}  // namespace

int64_t dense_count(const DenseOptions& options, const Target& target) {
  return std::max<int64_t>(options.targets->keep(options.anchors, target, kAssigner)->positives(), 1);
}

DetectionLoss dense_loss(const DenseOutput& output, const std::vector<Target>& targets,
                         const StepImages& step) {
  const DenseOptions& o = *output.options;
  SACCADE_CHECK(targets.size() == output.sizes.size(), "[retinanet] {} targets for {} images", targets.size(),
                output.sizes.size());
  check_objects(Objects(targets), targets, o.columns);
  std::vector<KeptAnchorTargets::Pointer> images(targets.size());
  parallel_for(std::ssize(images), 1, [&](int64_t begin, int64_t end) {
    for (auto n = static_cast<size_t>(begin); n < static_cast<size_t>(end); ++n)
      images[n] = o.targets->take(o.anchors, targets[n], kAssigner);
  });
  const AnchorTables tables = make_tables(output, targets, images);
  const Device device = output.logits[0].device();
  const Tensor labels = tables.labels.to(device), ignored = tables.ignored.to(device);
  const Var logits =
      masked_fill(rows_of(output.logit_rows, output.logits, o.columns), ignored.unsqueeze(-1), kNoLogit);
  const Var class_sum = sigmoid_focal_loss(logits, labels, o.focal_alpha, o.focal_gamma, LossParts::apart(1));
  const auto positives = std::ssize(tables.rows);
  const Var moved = index_select(rows_of(output.delta_rows, output.deltas, 4),
                                 Tensor::from<int64_t>({positives}, tables.rows).to(device));
  const Var box_sum =
      l1_loss(moved, Tensor::from<float>({positives, 4}, tables.deltas).to(device), LossParts::apart(1));
  double divisor = static_cast<double>(step.counted());
  if (step.empty())
    for (const auto& image : images) divisor += static_cast<double>(std::max<int64_t>(image->positives(), 1));
  divisor = std::max(divisor, 1.0);
  DetectionLoss loss;
  Tensor parts;
  loss.total = weighted_sum({class_sum, box_sum},
                            {{0, 0, o.class_weight / divisor}, {1, 0, o.bbox_weight / divisor}}, parts);
  loss.metrics.push_back(
      {"positive_anchors", static_cast<double>(positives), static_cast<double>(targets.size())});
  loss.parts = {{"class", parts.select(0, 0)}, {"bbox", parts.select(0, 1)}};
  return loss;
}

}  // namespace saccade
