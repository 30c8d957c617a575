#include "models/detection/criterion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>

#include "core/runtime/packed_upload.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"
#include "models/detection/masks/true_masks.h"

namespace saccade {
namespace {

// The matched queries of layers with the same shape.
struct Pairing {
  std::vector<std::vector<MatchedPair>> pairs;  // of the layers in [0, G), equally many each
  std::vector<float> weights = {};              // of the pairs of one layer; empty if all are 1
  MatchedQueries queries = {};
  std::array<size_t, 4> uploads = {};  // the tables of `queries`
};

// Layers with the same shape, whose losses are computed together.
struct StackedLayers {
  LayerPrediction predicted;               // [G, N, Q, ...]
  std::vector<int64_t> order;              // the order of summation, as positions in [0, G)
  std::vector<std::string> suffixes = {};  // in this order
  // Q consists of this many groups; those after the first match every object `repeat` times.
  int64_t groups = 1, repeat = 1;
  bool denoising = false;  // every group has one query per object
  bool binary = false;     // every object has class 0
  Pairing own = {};
  std::optional<Pairing> shared = {};  // shared by all layers, for the box losses

  Pairing& of(const LossTerm& term) { return shared && term.of_boxes() ? *shared : own; }
};

LayerPrediction stacked(std::span<const LayerPrediction> layers) {
  auto joined = [&](auto part) {
    Vars all;
    for (const LayerPrediction& p : layers) {
      const Var& x = part(p);
      if (!x.defined()) return Var();
      std::vector<int64_t> one{1};
      for (int i = 0; i < x.shape().rank(); ++i) one.push_back(x.dim(i));
      all.push_back(reshape(x, Shape(one)));
    }
    return all.size() == 1 ? all[0] : concat(all, 0);
  };
  LayerPrediction all{.logits = joined([](const LayerPrediction& p) { return p.logits; }),
                      .boxes = joined([](const LayerPrediction& p) { return p.boxes; }),
                      .masks = joined([](const LayerPrediction& p) { return p.masks; })};
  all.mask_factors = {joined([](const LayerPrediction& p) { return p.mask_factors.pixels; }),
                      joined([](const LayerPrediction& p) { return p.mask_factors.queries; }),
                      layers.front().mask_factors.bias, layers.front().mask_factors.cells_per_point};
  all.sides = {joined([](const LayerPrediction& p) { return p.sides.logits; }),
               joined([](const LayerPrediction& p) { return p.sides.references; }),
               layers.front().sides.values, layers.front().sides.scale};
  return all;
}

// Returns the index of the last of `layers` layers, then the others in ascending or descending order.
std::vector<int64_t> last_first(int64_t layers, bool rising) {
  std::vector<int64_t> order{layers - 1};
  for (int64_t i = 0; i + 1 < layers; ++i) order.push_back(rising ? i : layers - 2 - i);
  return order;
}

StackedLayers stacked_layers(const std::vector<LayerPrediction>& layers, const LayerPrediction& stack,
                             bool aux, bool rising, const std::string& suffix) {
  StackedLayers t{.predicted = !aux                     ? stacked({&layers.back(), 1})
                               : stack.logits.defined() ? stack
                                                        : stacked(layers),
                  .order = last_first(aux ? std::ssize(layers) : 1, rising)};
  for (int64_t l : t.order)
    t.suffixes.push_back(t.suffixes.empty() ? suffix : fmt::format("{}_{}", suffix, l));
  return t;
}

// Returns the counts of a layer with Q queries per image over the images of a step.
QueryCounts queries_in(const StackedLayers& t, const StepImages& images) {
  const int64_t Q = t.predicted.logits.dim(2), room = t.denoising ? INT64_MAX : Q / t.groups;
  const auto further = static_cast<double>(t.groups - 1);
  return {.objects = static_cast<double>(std::max<int64_t>(images.objects(), 1)) *
                     (1 + further * static_cast<double>(t.repeat)),
          .matched = static_cast<double>(images.matched(room)) +
                     further * static_cast<double>(images.matched(room, t.repeat)),
          .queries = static_cast<double>(images.images() * Q),
          .images = static_cast<double>(images.images())};
}

// Finds the matched rows of the flattened predictions; the tables for the device are uploaded later.
void find_matched(Pairing& p, const StackedLayers& t, const std::vector<Target>& targets,
                  const Objects& objects, PackedUpload& upload) {
  const Shape& s = t.predicted.logits.shape();
  MatchedQueries& out = p.queries;
  std::vector<float> boxes, weights;
  for (size_t g = 0; g < p.pairs.size(); ++g) {
    SACCADE_CHECK(p.pairs[g].size() == p.pairs[0].size(),
                  "[criterion] {} and {} matched queries in two layers", p.pairs[g].size(),
                  p.pairs[0].size());
    for (const MatchedPair& m : p.pairs[g]) {
      out.rows.push_back((static_cast<int64_t>(g) * s[1] + m.image) * s[2] + m.query);
      out.labels.push_back(t.binary ? 0 : objects.label(m.image, m.object));
      const float* box = objects.box(m.image, m.object);
      boxes.insert(boxes.end(), box, box + 4);
      const Target& image = targets[static_cast<size_t>(m.image)];
      out.objects.push_back({&image, &image.instances[static_cast<size_t>(m.object)]});
      out.object_rows.push_back(objects.begin(m.image) + m.object);
    }
    weights.insert(weights.end(), p.weights.begin(), p.weights.end());
  }
  const auto P = std::ssize(out.rows);
  p.uploads = {upload.add(Shape{P}, out.rows), upload.add(Shape{P}, out.labels),
               upload.add(Shape{P, 4}, boxes)};
  if (!p.weights.empty()) p.uploads[3] = upload.add(Shape{P}, weights);
}

void take_tables(Pairing& p, const StackedLayers& t, const std::vector<Tensor>& tables) {
  const Shape& s = t.predicted.boxes.shape();
  MatchedQueries& queries = p.queries;
  queries.indices = tables[p.uploads[0]];
  queries.classes = tables[p.uploads[1]];
  queries.truth = tables[p.uploads[2]];
  if (!p.weights.empty()) queries.weights = tables[p.uploads[3]];
  queries.boxes = index_select(reshape(t.predicted.boxes, {s[0] * s[1] * s[2], 4}), queries.indices);
}

// Merges all matchings of each image: pairs each query with the object that it was matched with most often;
// ties go to the first object.
std::vector<MatchedPair> unite(const std::vector<StackedLayers>& all, int64_t images) {
  std::vector<std::map<std::pair<int64_t, int64_t>, int>> counts(static_cast<size_t>(images));
  for (const StackedLayers& t : all)
    for (const auto& layer : t.own.pairs)
      for (const MatchedPair& m : layer) ++counts[static_cast<size_t>(m.image)][{m.query, m.object}];
  std::vector<MatchedPair> united;
  for (size_t n = 0; n < counts.size(); ++n) {
    int best = 0;
    for (const auto& [pair, count] : counts[n]) {
      const bool again = !united.empty() && united.back().image == static_cast<int64_t>(n) &&
                         united.back().query == pair.first;
      if (again && count <= best) continue;
      best = count;
      const MatchedPair found{static_cast<int64_t>(n), pair.first, pair.second};
      if (again)
        united.back() = found;
      else
        united.push_back(found);
    }
  }
  return united;
}

// Gives all layers the merged pairs; the denoising queries keep theirs.
void share_boxes(std::vector<StackedLayers>& all, const std::vector<Target>& targets) {
  const std::vector<MatchedPair> united = unite(all, std::ssize(targets));
  std::vector<int64_t> of_image(targets.size());
  for (const MatchedPair& m : united) ++of_image[static_cast<size_t>(m.image)];
  Pairing shared;
  for (const MatchedPair& m : united) {
    const auto n = static_cast<size_t>(m.image);
    shared.weights.push_back(static_cast<float>(static_cast<double>(targets[n].instances.size()) /
                                                static_cast<double>(of_image[n])));
  }
  const int64_t queries = all[0].predicted.logits.dim(2);
  for (StackedLayers& t : all) {
    SACCADE_CHECK(t.predicted.logits.dim(2) == queries, "[criterion] {} and {} queries that share pairs",
                  t.predicted.logits.dim(2), queries);
    shared.pairs.assign(t.own.pairs.size(), united);
    t.shared = shared;
    t.shared->queries.shared_pairs = of_image;
    t.shared->queries.shared_queries = queries;
  }
}

// Computes the losses of all layers: each term of each stack in one op, then their weighted sum.
DetectionLoss sum_losses(std::vector<StackedLayers>& all, const std::vector<Target>& targets,
                         const StepImages& step, ImageSize canvas,
                         const std::shared_ptr<const TrueMasks>& masks,
                         const std::vector<CriterionOptions::Term>& names,
                         const std::vector<std::shared_ptr<const LossTerm>>& losses) {
  const StepImages own(targets);
  const Objects objects(targets);
  PackedUpload upload;
  for (StackedLayers& t : all) {
    find_matched(t.own, t, targets, objects, upload);
    if (t.shared) find_matched(*t.shared, t, targets, objects, upload);
  }
  const std::vector<Tensor> tables = upload.upload(all[0].predicted.logits.device());
  DetectionLoss result;
  Vars sums;
  std::vector<WeightedTerm> terms;
  std::vector<std::string> part_names;
  for (StackedLayers& t : all) {
    for (Pairing* p : {&t.own, t.shared ? &*t.shared : nullptr}) {
      if (!p) continue;
      take_tables(*p, t, tables);
      p->queries.canvas = canvas;
      p->queries.masks = masks;
    }
    const auto matched_here = std::ssize(t.own.pairs[0]);
    SACCADE_CHECK(queries_in(t, own).matched == static_cast<double>(matched_here),
                  "[criterion] {} matched queries in a layer, but its loss is divided by the count {}",
                  matched_here, queries_in(t, own).matched);
    const QueryCounts counts = queries_in(t, step);
    std::vector<size_t> used;
    for (size_t i = 0; i < losses.size(); ++i)
      if (losses[i]->applies(t.predicted)) used.push_back(i);
    for (size_t layer = 0; layer < t.order.size(); ++layer)
      for (size_t k = 0; k < used.size(); ++k) {
        const size_t i = used[k];
        terms.push_back({sums.size() + k, t.order[layer], names[i].weight / losses[i]->divisor(counts)});
        part_names.push_back(names[i].name + t.suffixes[layer]);
      }
    for (size_t i : used) sums.push_back(losses[i]->sum(t.predicted, t.of(*losses[i]).queries));
  }
  Tensor parts;
  result.total = weighted_sum(sums, terms, parts);
  for (int64_t i = 0; const std::string& name : part_names)
    result.parts.emplace_back(name, parts.select(0, i++));
  return result;
}

// Adds the inputs of the mask matching: mask logits at points that all layers and queries of an image share.
void add_points(const std::vector<StackedLayers>& all, const std::vector<Target>& targets,
                const TrueMasks& masks, std::vector<MatchLayer>& layers) {
  const MaskFactors& first = all[0].predicted.mask_factors;  // [L, N, h, w, C]
  std::vector<PointRow> rows;
  for (const Target& target : targets) rows.push_back({target.image_id, 0});
  const int64_t count =
      std::max<int64_t>(1, first.pixels.dim(2) * first.pixels.dim(3) / first.cells_per_point);
  const Tensor points = random_points(rows, count, mix_key(execution().rng_key, hash_name("mask matching")),
                                      first.pixels.device());
  const Tensor truth = masks.at(points);
  size_t at = 0;
  for (const StackedLayers& t : all) {
    const MaskFactors& f = t.predicted.mask_factors;
    for (int64_t l : t.order) {
      const MaskFactors of_layer{Var(f.pixels.value().select(0, l)), Var(f.queries.value().select(0, l)),
                                 f.bias.detach()};
      layers[at].mask_points = logits_at(of_layer, points);
      layers[at].true_points = truth;
      layers[at++].mask_weights = masks.weights();
    }
  }
}

// Adds class_error and cardinality_error, see SetCriterion::forward.
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
  // The last layer comes first, then the earlier ones, the proposals and the denoising queries.
  std::vector<StackedLayers> all{stacked_layers(output.layers, output.stacked, o.aux, true, "")};
  const int64_t groups = output.query_groups;
  all[0].groups = groups;
  all[0].repeat = o.extra_group_repeat;
  if (output.encoder.logits.defined()) {
    all.push_back(stacked_layers({output.encoder}, {}, true, true, "_enc"));
    all.back().binary = !output.encoder_classes;
    if (output.encoder_in_groups) {
      all.back().groups = groups;
      all.back().repeat = o.extra_group_repeat;
    }
  }
  if (output.first.logits.defined()) all.push_back(stacked_layers({output.first}, {}, true, true, "_pre"));
  std::vector<MatchLayer> layers;
  for (const StackedLayers& t : all) {
    const Tensor logits = t.predicted.logits.value().to(DType::kF32), boxes = t.predicted.boxes.value();
    const bool decoder = layers.empty();
    for (int64_t l : t.order) {
      MatchLayer layer{.logits = logits.select(0, l),
                       .boxes = boxes.select(0, l),
                       .binary = t.binary,
                       .groups = t.groups,
                       .repeat = t.repeat};
      layer.fetch_logits = layers.empty();
      if (!decoder) layer.name = t.suffixes[0] == "_pre" ? "the first boxes" : "the proposals";
      if (decoder && !layers.empty()) layer.name = fmt::format("layer {}", l);
      layers.push_back(std::move(layer));
    }
  }
  std::shared_ptr<const TrueMasks> masks;
  if (all[0].predicted.mask_factors.pixels.defined()) {
    masks = std::make_shared<TrueMasks>(targets, output.canvas, all[0].predicted.boxes.device());
    add_points(all, targets, *masks, layers);
  }
  Matching matching = match(layers, targets, o.matcher);
  for (size_t at = 0; StackedLayers & t : all) {
    t.own.pairs.resize(t.order.size());
    for (int64_t l : t.order) t.own.pairs[static_cast<size_t>(l)] = matching.layers[at++];
  }
  if (o.shared_boxes) share_boxes(all, targets);
  if (const DenoisingOutput& dn = output.denoising; !dn.layers.empty()) {
    auto add = [&](StackedLayers t) {
      t.groups = dn.groups;
      t.denoising = true;
      t.own.pairs.assign(t.order.size(), dn.pairs);
      if (o.shared_boxes) {
        t.own.queries.shared_pairs = all[0].shared->queries.shared_pairs;
        t.own.queries.shared_queries = all[0].shared->queries.shared_queries;
      }
      all.push_back(std::move(t));
    };
    add(stacked_layers(dn.layers, {}, o.aux, false, "_dn"));
    if (dn.first.logits.defined()) add(stacked_layers({dn.first}, {}, true, true, "_dn_pre"));
  }

  DetectionLoss result = sum_losses(all, targets, step.empty() ? StepImages(targets) : step, output.canvas,
                                    masks, o.terms, terms_);
  add_metrics(layers[0].logits.shape(), matching.logits[0], matching.layers[0], targets, groups, *class_loss_,
              result);
  result.problems = std::move(matching.problems);
  result.bad_images = std::move(matching.bad_images);
  if (!result.problems.empty())
    result.total = mul_scalar(result.total, std::numeric_limits<double>::quiet_NaN());
  return result;
}

}  // namespace saccade
