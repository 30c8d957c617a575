// The set loss of the DETR family: every decoder layer's predictions are matched with the objects, then
// class, L1 and GIoU losses are summed over the pairs and divided by the number of objects.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/types/step_images.h"
#include "layers/args.h"
#include "models/detection/loss_term.h"
#include "models/detection/matcher.h"
#include "models/detection/set_output.h"

namespace saccade {

struct CriterionOptions : ClassLossOptions {
  std::string class_loss;  // a registered one, see models/detection/class_loss.h
  struct Term {
    std::string name;  // a registered one, see models/detection/loss_term.h
    double weight;
  };
  std::vector<Term> terms;  // in the order of their sum
  bool aux = true;          // losses of the decoder layers before the last one
  // How often an object is matched within each extra query group (hybrid matching, Jia et al. 2023); once in
  // the first one. 1 is Group DETR (Chen et al. 2023).
  int64_t extra_group_repeat = 0;
  // The losses of boxes are those of one set of pairs for all layers, of which each matching has a part: a
  // query answers the object that it was most often matched with ("GO-LSD", Peng et al. 2024, D-FINE). The
  // pairs of an image weigh together what its objects do.
  bool shared_boxes = false;
  MatcherOptions matcher;  // its kind of class cost is the class loss's

  // From the config section `criterion`, which has the defaults.
  static CriterionOptions read(const Args& section);
};

class SetCriterion {
 public:
  explicit SetCriterion(const CriterionOptions& options);
  // Parts: the terms ("class", "bbox", "giou") of the last layer, then with suffixes _0, _1, ... those of the
  // earlier layers and _pre those of SetOutput::first, _enc those of the two-stage proposals, _dn, _dn_0,
  // _dn_1, ... those of the denoising queries, which answer objects without matching. Metrics, of the last
  // layer's first query group: "class_error" (per cent of the matched queries whose best class is another
  // one; 0 without objects) and "cardinality_error" (mean absolute difference of the number of queries that
  // see an object, score over 0.5 or best class not "no object", and the number of objects). The total is NaN
  // with problems also where the assignment avoided them (see Matching).
  // step: the images of the whole step, by whose objects (at least 1) the sums are divided; empty: those of
  // `targets` are all. With query groups their number is multiplied by how often each object is matched, 1 +
  // (groups - 1) * extra_group_repeat, and with denoising by its groups, which all batches of the step must
  // have as many of (DetectorInput::most_objects). The softmax class loss is divided by the sum of the class
  // weights over all queries instead. Images without objects and batches without any are fine: all their
  // queries are background.
  DetectionLoss forward(const SetOutput& output, const std::vector<Target>& targets,
                        const StepImages& step = {}) const;

  const ClassLoss& class_loss() const { return *class_loss_; }

 private:
  CriterionOptions options_;
  std::shared_ptr<const ClassLoss> class_loss_;
  std::vector<std::shared_ptr<const LossTerm>> terms_;  // as options_.terms
};

}  // namespace saccade
