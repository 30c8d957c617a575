// Bipartite matching of predictions with objects (Carion et al. 2020): costs of class, box distance and
// overlap, and the assignment of least total cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/runtime/host_copy.h"
#include "models/detection/assignment.h"
#include "models/detection/objects.h"
#include "models/detection/set_output.h"

namespace saccade {

struct MatcherOptions {
  double class_cost = 0, bbox_cost = 0, giou_cost = 0;
  double mask_cost = 0, dice_cost = 0;  // for masks, at `mask_points` of MatchLayer
  double focal_alpha = 0, focal_gamma = 0;
  // The class cost is the negative softmax probability (DETR), else the difference of the focal terms.
  bool probabilities = false;
};

// The predictions to match of one decoder layer or of the two-stage proposals.
struct MatchLayer {
  Tensor logits;        // [N, Q, K], any floating dtype
  Tensor boxes;         // [N, Q, 4] as (cx, cy, w, h)
  Tensor mask_points;   // f32 [N, Q, P]: mask logits at random points; undefined without masks
  Tensor true_points;   // f32 [R, P]: the values of the objects' masks there, 0 or 1
  Tensor mask_weights;  // f32 [R]: 0 for an object without a mask, else 1
  bool binary = false;  // all objects have class 0 (two-stage proposals)
  // Q consists of this many groups of equal size, each matched with all objects on its own; in the groups
  // after the first, every object is matched up to `repeat` times.
  int64_t groups = 1, repeat = 1;
  bool fetch_logits = false;            // copies them to the host with the costs, see Matching
  std::string name = "the last layer";  // for messages
};

struct Matching {
  std::vector<std::vector<MatchedPair>> layers;  // pairs ordered by image, group and query
  // One line for each image and layer with non-finite predictions for its objects: "image 12 (a.jpg),
  // layer 3: the predicted box of query 7 is not finite", and the ids of these images, each once. Such
  // predictions are matched last.
  std::vector<std::string> problems;
  std::vector<int64_t> bad_images;
  // Logits of each layer that asked for them, f32 on the host, else null; valid as long as `copied`.
  std::vector<const float*> logits;
  HostCopy copied;
};

// Matches every layer. Computes the costs in f32 on the device of the predictions, copies them to the host in
// one go (the host waits) and assigns on CPU threads. Throws Error for shapes that do not fit,
// and as check_objects does.
Matching match(const std::vector<MatchLayer>& layers, const std::vector<Target>& targets,
               const MatcherOptions& options);

}  // namespace saccade
