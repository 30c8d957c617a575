#include "models/detection/denoising.h"

#include <algorithm>

#include "core/tensor/execution.h"
#include "core/tensor/philox.h"
#include "models/detection/objects.h"

namespace saccade {
namespace {

// Two blocks of random bits for one query: one for its edges, one for its directions and label.
struct QueryNoise {
  Philox edges, rest;
  QueryNoise(uint64_t key, const Target& target, int64_t group, int64_t object, bool negative) {
    auto draw = [&](uint64_t block) {
      const uint64_t counter = static_cast<uint64_t>(group) << 34 | static_cast<uint64_t>(object) << 2 |
                               static_cast<uint64_t>(negative) << 1 | block;
      return Philox::generate(key, static_cast<uint64_t>(target.image_id), counter);
    };
    edges = draw(0);
    rest = draw(1);
  }
};

int64_t noisy_label(int64_t label, int64_t classes, const QueryNoise& noise, const DenoisingOptions& o) {
  if (uniform_from_bits(noise.rest.x[1]) >= static_cast<float>(o.label_noise / 2)) return label;
  return static_cast<int64_t>(uint64_t{noise.rest.x[2]} * static_cast<uint64_t>(classes) >> 32);
}

// box, out: (cx, cy, w, h). Each edge moves in or out by a random fraction of half the side, that of a
// negative query by one half side more; edges that cross leave size 0.
void noisy_box(const float* box, bool negative, const QueryNoise& noise, const DenoisingOptions& o,
               float* out) {
  const auto scale = static_cast<float>(o.box_noise);
  float edges[4];  // x1, y1, x2, y2
  for (int i = 0; i < 4; ++i) {
    const float half = 0.5f * box[2 + i % 2], sign = noise.rest.x[0] >> i & 1u ? 1.0f : -1.0f;
    const float part = uniform_from_bits(noise.edges.x[i]) + (negative ? 1.0f : 0.0f);
    const float edge = box[i % 2] + (i < 2 ? -half : half) + sign * part * half * scale;
    edges[i] = std::clamp(edge, 0.0f, 1.0f);
  }
  for (int axis = 0; axis < 2; ++axis) {
    out[axis] = 0.5f * (edges[axis] + edges[axis + 2]);
    out[axis + 2] = std::max(edges[axis + 2] - edges[axis], 0.0f);
  }
}

}  // namespace

DenoisingOptions DenoisingOptions::read(const Args& transformer) {
  const Args& section = transformer.get_section("denoising");
  return {.queries = section.get_int("queries"),
          .label_noise = section.get_float("label_noise"),
          .box_noise = section.get_float("box_noise")};
}

DenoisingQueries make_denoising(const std::vector<Target>& targets, int64_t classes,
                                const DenoisingOptions& options, Device device, int64_t most_objects) {
  const Objects all(targets);
  check_objects(all, targets, classes);
  DenoisingQueries out;
  const int64_t N = std::ssize(targets), T = std::max(most_objects, StepImages(targets).most_objects());
  if (T == 0) return out;
  out.groups = std::max<int64_t>(options.queries / T, 1);
  out.size = 2 * T;
  const int64_t D = out.count();
  const uint64_t key = mix_key(execution().rng_key, hash_name("denoising"));

  std::vector<int64_t> labels(static_cast<size_t>(N * D), classes);
  std::vector<float> boxes(static_cast<size_t>(N * D * 4), options.padding_box);
  Tensor padding = Tensor::full({N, D, 1}, 1, DType::kBool);
  bool padded = false;
  for (int64_t n = 0; n < N; ++n) {
    const Target& target = targets[static_cast<size_t>(n)];
    const int64_t objects = all.count(n);
    padded = padded || objects < T;
    for (int64_t g = 0; g < out.groups; ++g) {
      for (int64_t i = 0; i < 2 * objects; ++i) {
        const bool negative = i >= objects;
        const int64_t object = i % objects, query = g * out.size + (negative ? T : 0) + object;
        const QueryNoise noise(key, target, g, object, negative);
        const auto at = static_cast<size_t>(n * D + query);
        labels[at] = noisy_label(all.label(n, object), classes, noise, options);
        noisy_box(all.box(n, object), negative, noise, options, boxes.data() + 4 * at);
        padding.data<bool>()[at] = false;
        if (!negative) out.pairs.push_back({n, query, object});
      }
    }
  }
  out.labels = Tensor::from<int64_t>({N, D}, labels, device);
  out.boxes = Tensor::from<float>({N, D, 4}, boxes, device);
  if (padded) out.padding = padding.to(device);
  return out;
}

DenoisingQueries make_denoising(const DetectorInput& input, bool training, int64_t classes,
                                const DenoisingOptions& options) {
  if (!training || !input.targets || options.queries == 0) return {};
  return make_denoising(*input.targets, classes, options, input.images.device(), input.most_objects);
}

LabelEmbedding::LabelEmbedding(int64_t classes, int64_t channels) {
  weight_ = param("weight", {classes + 1, channels}, [](Tensor& t, Rng& rng) {
    init::normal(0, 1)(t, rng);
    t.slice(0, t.dim(0) - 1, t.dim(0)).fill(0);
  });
}

Var LabelEmbedding::forward(const DenoisingQueries& queries) const {
  Var content = embedding(weight_, queries.labels);
  return queries.padding.defined() ? masked_fill(content, queries.padding, 0) : content;
}

void prepend(DenoisingQueries denoising, const Var& target, const Var& position, const Var& reference,
             DecoderQueries& q) {
  q.target = concat({target, q.target}, 1);
  if (q.position.defined()) q.position = concat({position, q.position}, 1);
  if (q.reference.defined()) q.reference = concat({reference, q.reference}, 1);
  q.groups.mask = mask_of_groups(denoising.groups, denoising.size, q.target.dim(1), q.target.device());
  q.denoising = std::move(denoising);
}

namespace {

// Returns the predictions of the queries [begin, end).
LayerPrediction part_of(const LayerPrediction& all, int64_t begin, int64_t end) {
  auto part = [&](const Var& x) { return x.defined() ? slice(x, 1, begin, end) : x; };
  return {.logits = part(all.logits),
          .boxes = part(all.boxes),
          .sides = {part(all.sides.logits), part(all.sides.references), all.sides.values, all.sides.scale}};
}

}  // namespace

void add_layer(SetOutput& output, const DenoisingQueries& queries, const LayerPrediction& all) {
  const int64_t D = queries.count(), Q = all.logits.dim(1);
  if (D == 0) return output.layers.push_back(all);
  output.layers.push_back(part_of(all, D, Q));
  output.denoising.layers.push_back(part_of(all, 0, D));
  output.denoising.pairs = queries.pairs;
  output.denoising.groups = queries.groups;
}

void set_first(SetOutput& output, const DenoisingQueries& queries, const LayerPrediction& all) {
  const int64_t D = queries.count();
  output.first = D == 0 ? all : part_of(all, D, all.logits.dim(1));
  if (D > 0) output.denoising.first = part_of(all, 0, D);
}

void add_layers(SetOutput& output, const DenoisingQueries& queries, const LayerPrediction& all) {
  auto layer = [](const Var& x, int64_t l) {
    return reshape(slice(x, 0, l, l + 1), {x.dim(1), x.dim(2), x.dim(3)});
  };
  for (int64_t l = 0; l < all.logits.dim(0); ++l)
    add_layer(output, queries, {layer(all.logits, l), layer(all.boxes, l)});
  if (queries.count() == 0) output.stacked = all;
}

}  // namespace saccade
