#include "models/detection/criterion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "core/runtime/packed_upload.h"

namespace saccade {
namespace {

// Layers of one shape: their losses are made together.
struct Together {
  LayerPrediction predicted;               // [G, N, Q, ...]
  std::vector<int64_t> order;              // of the layers in the sum, positions in [0, G)
  std::vector<std::string> suffixes = {};  // in this order
  // Q is this many groups; those after the first one match every object so often.
  int64_t groups = 1, repeat = 1;
  bool denoising = false;                         // every group has a query for every object
  bool binary = false;                            // every object has class 0
  std::vector<std::vector<MatchedPair>> pairs{};  // of the layers in [0, G), as many of each
  MatchedQueries matched{};
  std::array<size_t, 3> uploads{};  // the tables of `matched`
};

LayerPrediction stacked(std::span<const LayerPrediction> layers) {
  auto joined = [&](Var LayerPrediction::*part) {
    Vars all;
    for (const LayerPrediction& p : layers) {
      if (!(p.*part).defined()) return Var();
      std::vector<int64_t> one{1};
      for (int i = 0; i < (p.*part).shape().rank(); ++i) one.push_back((p.*part).dim(i));
      all.push_back(reshape(p.*part, Shape(one)));
    }
    return all.size() == 1 ? all[0] : concat(all, 0);
  };
  return {joined(&LayerPrediction::logits), joined(&LayerPrediction::boxes), joined(&LayerPrediction::masks)};
}

// The last layer, and with aux the others after it, in rising or falling order.
std::vector<int64_t> last_first(int64_t layers, bool rising) {
  std::vector<int64_t> order{layers - 1};
  for (int64_t i = 0; i + 1 < layers; ++i) order.push_back(rising ? i : layers - 2 - i);
  return order;
}

Together together(const std::vector<LayerPrediction>& layers, const LayerPrediction& stack, bool aux,
                  bool rising, const std::string& suffix) {
  Together t{.predicted = !aux                     ? stacked({&layers.back(), 1})
                          : stack.logits.defined() ? stack
                                                   : stacked(layers),
             .order = last_first(aux ? std::ssize(layers) : 1, rising)};
  for (int64_t l : t.order)
    t.suffixes.push_back(t.suffixes.empty() ? suffix : fmt::format("{}_{}", suffix, l));
  return t;
}

// Of a layer in images of a step, which all have its Q queries.
QueryCounts queries_in(const Together& t, const StepImages& images) {
  const int64_t Q = t.predicted.logits.dim(2), room = t.denoising ? INT64_MAX : Q / t.groups;
  const auto further = static_cast<double>(t.groups - 1);
  return {.objects = static_cast<double>(std::max<int64_t>(images.objects(), 1)) *
                     (1 + further * static_cast<double>(t.repeat)),
          .matched = static_cast<double>(images.matched(room)) +
                     further * static_cast<double>(images.matched(room, t.repeat)),
          .queries = static_cast<double>(images.images() * Q)};
}

// What is matched, as rows of the flattened predictions; the tables for the device are uploaded later.
void find_matched(Together& t, const std::vector<Target>& targets, const Objects& objects,
                  PackedUpload& upload) {
  const Shape& s = t.predicted.logits.shape();
  MatchedQueries& out = t.matched;
  std::vector<float> boxes;
  for (size_t g = 0; g < t.pairs.size(); ++g) {
    SACCADE_CHECK(t.pairs[g].size() == t.pairs[0].size(),
                  "[criterion] {} and {} matched queries of two layers", t.pairs[g].size(),
                  t.pairs[0].size());
    for (const MatchedPair& m : t.pairs[g]) {
      out.rows.push_back((static_cast<int64_t>(g) * s[1] + m.image) * s[2] + m.query);
      out.labels.push_back(t.binary ? 0 : objects.label(m.image, m.object));
      const float* box = objects.box(m.image, m.object);
      boxes.insert(boxes.end(), box, box + 4);
      const Target& image = targets[static_cast<size_t>(m.image)];
      out.objects.push_back({&image, &image.instances[static_cast<size_t>(m.object)]});
    }
  }
  const auto P = std::ssize(out.rows);
  t.uploads = {upload.add(Shape{P}, out.rows), upload.add(Shape{P}, out.labels),
               upload.add(Shape{P, 4}, boxes)};
}

// The losses of all layers: every kind of every stack in one op, and their weighted sum.
DetectionLoss sum_losses(std::vector<Together>& all, const std::vector<Target>& targets,
                         const StepImages& step, ImageSize canvas,
                         const std::vector<CriterionOptions::Term>& names,
                         const std::vector<std::shared_ptr<const LossTerm>>& losses) {
  const StepImages own(targets);
  const Objects objects(targets);
  PackedUpload upload;
  for (Together& t : all) find_matched(t, targets, objects, upload);
  const std::vector<Tensor> tables = upload.upload(all[0].predicted.logits.device());
  DetectionLoss result;
  Vars sums;
  std::vector<WeightedTerm> terms;
  for (Together& t : all) {
    const Shape& s = t.predicted.boxes.shape();
    MatchedQueries& queries = t.matched;
    queries.indices = tables[t.uploads[0]];
    queries.classes = tables[t.uploads[1]];
    queries.truth = tables[t.uploads[2]];
    queries.canvas = canvas;
    queries.boxes = index_select(reshape(t.predicted.boxes, {s[0] * s[1] * s[2], 4}), queries.indices);
    const auto matched_here = std::ssize(t.pairs[0]);
    SACCADE_CHECK(queries_in(t, own).matched == static_cast<double>(matched_here),
                  "[criterion] {} matched queries of a layer, but its loss is divided as for {}",
                  matched_here, queries_in(t, own).matched);
    const QueryCounts counts = queries_in(t, step);
    for (int64_t l : t.order)
      for (size_t i = 0; i < losses.size(); ++i)
        terms.push_back({sums.size() + i, l, names[i].weight / losses[i]->divisor(counts)});
    for (const auto& loss : losses) sums.push_back(loss->sum(t.predicted, queries));
  }
  Tensor parts;
  result.total = weighted_sum(sums, terms, parts);
  for (int64_t i = 0; const Together& t : all)
    for (const std::string& suffix : t.suffixes)
      for (const CriterionOptions::Term& term : names)
        result.parts.emplace_back(term.name + suffix, parts.select(0, i++));
  return result;
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
             targets[static_cast<size_t>(m.image)].instances[static_cast<size_t>(m.object)].label;
  }
  for (int64_t n = 0; n < N && K > 0; ++n) {
    double seen = 0;
    for (int64_t q = 0; q < Q / groups; ++q) {
      int64_t k = best_class(n, q);
      seen += class_loss.sees_object(values + (n * Q + q) * K, K, k);
    }
    difference += std::abs(seen - static_cast<double>(targets[static_cast<size_t>(n)].instances.size()));
  }
  result.metrics.push_back({"class_error", 100 * wrong, pairs});
  result.metrics.push_back({"cardinality_error", difference, static_cast<double>(N)});
}

}  // namespace

CriterionOptions CriterionOptions::read(const Args& s) {
  CriterionOptions o;
  o.class_loss = s.get_string("class_loss");
  for (const std::string name : {"class", "bbox", "giou"})
    o.terms.push_back({name, s.get_float(name + "_weight")});
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
  for (const auto& term : options.terms)
    terms_.push_back(loss_terms().find(term.name, "criterion").make(class_loss_));
}

DetectionLoss SetCriterion::forward(const SetOutput& output, const std::vector<Target>& targets,
                                    const StepImages& step) const {
  const CriterionOptions& o = options_;
  SACCADE_CHECK(!output.layers.empty(), "[criterion] the model made no prediction");
  // The last layer first, then the earlier ones, then the proposals, then the denoising queries.
  std::vector<Together> all{together(output.layers, output.stacked, o.aux, true, "")};
  const int64_t groups = output.query_groups;
  all[0].groups = groups;
  all[0].repeat = o.extra_group_repeat;
  if (output.encoder.logits.defined()) {
    all.push_back(together({output.encoder}, {}, true, true, "_enc"));
    all[1].binary = !output.encoder_classes;
  }
  std::vector<MatchLayer> layers;
  for (const Together& t : all) {
    const Tensor logits = t.predicted.logits.value().to(DType::kF32), boxes = t.predicted.boxes.value();
    const bool decoder = layers.empty();
    for (int64_t l : t.order) {
      MatchLayer layer{.logits = logits.select(0, l),
                       .boxes = boxes.select(0, l),
                       .binary = t.binary,
                       .groups = t.groups,
                       .repeat = t.repeat};
      layer.fetch_logits = layers.empty();
      if (!decoder) layer.name = "the proposals";
      if (decoder && !layers.empty()) layer.name = fmt::format("layer {}", l);
      layers.push_back(std::move(layer));
    }
  }
  Matching matching = match(layers, targets, o.matcher);
  for (size_t at = 0; Together & t : all) {
    t.pairs.resize(t.order.size());
    for (int64_t l : t.order) t.pairs[static_cast<size_t>(l)] = matching.layers[at++];
  }
  if (const DenoisingOutput& dn = output.denoising; !dn.layers.empty()) {
    all.push_back(together(dn.layers, {}, o.aux, false, "_dn"));
    all.back().groups = dn.groups;
    all.back().denoising = true;
    all.back().pairs.assign(all.back().order.size(), dn.pairs);
  }

  DetectionLoss result =
      sum_losses(all, targets, step.empty() ? StepImages(targets) : step, output.canvas, o.terms, terms_);
  add_metrics(layers[0].logits.shape(), matching.logits[0], matching.layers[0], targets, groups, *class_loss_,
              result);
  result.problems = std::move(matching.problems);
  result.bad_images = std::move(matching.bad_images);
  if (!result.problems.empty())
    result.total = mul_scalar(result.total, std::numeric_limits<double>::quiet_NaN());
  return result;
}

}  // namespace saccade
