// Contrastive denoising (Li et al. 2022, DN-DETR; Zhang et al. 2023, DINO). In training, additional queries
// are placed before the others. They are made from the objects by adding noise to their classes and boxes.
// The decoder should find the object of a positive query and none for a negative query, which lies farther
// away; nothing is matched. They come in groups, each with every object once, and the other queries do not
// see them (mask_of_groups, layers/attention.h).
#pragma once

#include <vector>

#include "layers/args.h"
#include "models/common/transformer.h"
#include "models/detection/set_output.h"

namespace saccade {

struct DenoisingOptions {
  int64_t queries = 0;     // pairs of a positive and a negative query, over all groups; 0 for no denoising
  double label_noise = 0;  // fraction of labels drawn for a change; half of those are drawn anew
  double box_noise = 0;    // each edge of a positive query moves by up to this fraction of half its side
  // The four coordinates of queries that stand for no object: 0 as in RT-DETR, 0.5 as in DINO.
  float padding_box = 0;

  // Reads the section `denoising` of model.transformer.
  static DenoisingOptions read(const Args& transformer);
};

// If the largest number of objects of an image is T, a group has T positive and T negative queries; an image
// with t objects uses the first t of each. D = groups * size.
struct DenoisingQueries {
  int64_t groups = 0, size = 0;  // size: 2 T; both are 0 if the batch has no objects
  Tensor labels;                 // i64 [N, D]; the number of classes for a query without object
  Tensor padding;                // bool [N, D, 1], true for these queries; undefined if there are none
  Tensor boxes;                  // f32 [N, D, 4] as (cx, cy, w, h) in [0, 1]
  std::vector<MatchedPair> pairs;
  int64_t count() const { return groups * size; }
};

// There are max(1, options.queries / T) groups, with T at least most_objects. Every number is drawn from the
// thread's key (core/tensor/execution.h), the id of the image, the group and the object: the rest of the
// batch affects only T and with it the number of groups. Throws Error as check_objects does.
DenoisingQueries make_denoising(const std::vector<Target>& targets, int64_t classes,
                                const DenoisingOptions& options, Device device, int64_t most_objects = 0);
// The same if there are options.queries, input.targets and `training`; otherwise no queries.
DenoisingQueries make_denoising(const DetectorInput& input, bool training, int64_t classes,
                                const DenoisingOptions& options);

// The initial content of the denoising queries: `weight` [classes + 1, C], one row per class, N(0, 1); the
// last row belongs to the queries that stand for no object and is not used.
class LabelEmbedding : public Module {
 public:
  LabelEmbedding(int64_t classes, int64_t channels);
  Var forward(const DenoisingQueries& queries) const;  // [N, D, C], zeros for no object

 private:
  Var weight_;
};

// The Q queries that a decoder starts from.
struct DecoderQueries {
  Var target;     // [N, Q, C]
  Var position;   // [N, Q, C]; undefined if it is computed from the references
  Var reference;  // [N, Q, ...], depending on the family; undefined if it has none
  QueryGroups groups;
  DenoisingQueries denoising;  // the first ones
};
// Puts these queries before the others; each part is [N, D, ...].
void prepend(DenoisingQueries denoising, const Var& target, const Var& position, const Var& reference,
             DecoderQueries& queries);

// Appends the predictions of a decoder layer for all queries, of which the first `queries.count()` are the
// denoising ones.
void add_layer(SetOutput& output, const DenoisingQueries& queries, const LayerPrediction& all);
// Stores them as SetOutput::first.
void set_first(SetOutput& output, const DenoisingQueries& queries, const LayerPrediction& all);
// The same for all decoder layers at once, [L, N, Q, ...].
void add_layers(SetOutput& output, const DenoisingQueries& queries, const LayerPrediction& all);

}  // namespace saccade
