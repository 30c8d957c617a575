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
  std::string class_loss;  // a registered name, see models/detection/class_loss.h
  struct Term {
    std::string name;  // a registered name, see models/detection/loss_term.h
    double weight;
  };
  std::vector<Term> terms;  // in the order in which they are summed
  bool aux = true;          // adds losses of the decoder layers before the last one
  // How often an object is matched within each extra query group (hybrid matching, Jia et al. 2023); once in
  // the first group. 1 is Group DETR (Chen et al. 2023).
  int64_t extra_group_repeat = 0;
  // If set, the box losses of all layers use one set of pairs, to which every matching contributes: a query
  // answers the object that it was matched with most often ("GO-LSD", Peng et al. 2024, D-FINE). The pairs of
  // an image together weigh as much as its objects.
  bool shared_boxes = false;
  MatcherOptions matcher;  // its kind of class cost comes from the class loss

  // Reads the config section `criterion`, which has the defaults.
  static CriterionOptions read(const Args& section);
};

class SetCriterion {
 public:
  explicit SetCriterion(const CriterionOptions& options);
  // Parts: the terms ("class", "bbox", "giou") of the last layer, then with suffixes _0, _1, ... those of the
  // earlier layers, _pre those of SetOutput::first, _enc those of the two-stage proposals, _dn, _dn_0, _dn_1,
  // ... those of the denoising queries, which answer objects without matching. Metrics of the last layer's
  // first query group: "class_error" (per cent of the matched queries whose best class is wrong; 0 without
  // objects) and "cardinality_error" (mean absolute difference between the number of queries that see an
  // object, score over 0.5 or best class not "no object", and the number of objects). With problems the total
  // is NaN even if the assignment avoided them (see Matching).
  // step: the images of the whole step; the sums are divided by the number of their objects (at least 1); if
  // empty, `targets` are all images. With query groups this number is multiplied by how often each object is
  // matched, 1 + (groups - 1) * extra_group_repeat, and with denoising by its groups, whose number must be
  // the same in all batches of the step (DetectorInput::most_objects). The softmax class loss is divided by
  // the sum of the class weights over all queries instead. Images without objects and batches without any are
  // allowed: all their queries are background.
  DetectionLoss forward(const SetOutput& output, const std::vector<Target>& targets,
                        const StepImages& step = {}) const;

  const ClassLoss& class_loss() const { return *class_loss_; }

 private:
  CriterionOptions options_;
  std::shared_ptr<const ClassLoss> class_loss_;
  std::vector<std::shared_ptr<const LossTerm>> terms_;  // in the order of options_.terms
};

}  // namespace saccade
