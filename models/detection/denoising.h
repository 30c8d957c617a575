// Contrastive denoising (Li et al. 2022, DN-DETR; Zhang et al. 2023, DINO). In training further queries,
// before the others, are made of the objects: their classes and boxes with noise. From a positive query the
// decoder is to find its object, a negative one lies farther off and is to find none; nothing is matched.
// They come in groups, each with every object once, and the other queries do not see them (mask_of_groups,
// layers/attention.h).
#pragma once

#include <vector>

#include "layers/args.h"
#include "models/common/transformer.h"
#include "models/detection/set_output.h"

namespace saccade {

struct DenoisingOptions {
  int64_t queries = 0;     // pairs of a positive and a negative query, all groups together; 0: no denoising
  double label_noise = 0;  // of the labels this part is drawn for a change, and half of those are drawn again
  double box_noise = 0;    // of a positive query each edge moves by up to this part of half its side
  // What all four coordinates of the queries are that stand for no object: 0 as in RT-DETR, 0.5 as in DINO.
  float padding_box = 0;

  // From the section `denoising` of model.transformer.
  static DenoisingOptions read(const Args& transformer);
};

// With T objects in the image that has the most, a group is T positive queries and T negative ones, in an
// image of t objects the first t of them; D = groups * size.
struct DenoisingQueries {
  int64_t groups = 0, size = 0;  // size: 2 T; both 0 without objects in the whole batch
  Tensor labels;                 // i64 [N, D]; the number of classes: a query that stands for no object
  Tensor padding;                // bool [N, D, 1], true for these; undefined when there are none
  Tensor boxes;                  // f32 [N, D, 4] as (cx, cy, w, h) in [0, 1]
  std::vector<MatchedPair> pairs;
  int64_t count() const { return groups * size; }
};

// There are max(1, options.queries / T) groups, with T at least most_objects. Every number is drawn from the
// thread's key (core/tensor/execution.h), the id of the image, the group and the object: the rest of the
// batch changes none of them, only T and with it the number of groups. Throws Error as check_objects does.
DenoisingQueries make_denoising(const std::vector<Target>& targets, int64_t classes,
                                const DenoisingOptions& options, Device device, int64_t most_objects = 0);
// The same when there are options.queries, input.targets and `training`, else none.
DenoisingQueries make_denoising(const DetectorInput& input, bool training, int64_t classes,
                                const DenoisingOptions& options);

// What the denoising queries start from: `weight` [classes + 1, C], a row a class, N(0, 1); the last one
// belongs to the queries that stand for no object and is not used.
class LabelEmbedding : public Module {
 public:
  LabelEmbedding(int64_t classes, int64_t channels);
  Var forward(const DenoisingQueries& queries) const;  // [N, D, C], zeros for no object

 private:
  Var weight_;
};

// What a decoder starts from, Q queries.
struct DecoderQueries {
  Var target;     // [N, Q, C]
  Var position;   // [N, Q, C]; undefined where it is made of the references
  Var reference;  // [N, Q, ...]: the family's; undefined where it has none
  QueryGroups groups;
  DenoisingQueries denoising;  // the first ones
};
// Puts these before the others; each part is [N, D, ...].
void prepend(DenoisingQueries denoising, const Var& target, const Var& position, const Var& reference,
             DecoderQueries& queries);

// Appends what a decoder layer predicts of all queries, of which the first `queries.count()` are the
// denoising ones.
void add_layer(SetOutput& output, const DenoisingQueries& queries, const LayerPrediction& all);
// The same as SetOutput::first.
void set_first(SetOutput& output, const DenoisingQueries& queries, const LayerPrediction& all);
// The same of all decoder layers at once, [L, N, Q, ...].
void add_layers(SetOutput& output, const DenoisingQueries& queries, const LayerPrediction& all);

}  // namespace saccade
