#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/evaluation/detections.h"
#include "data/formats/dataset.h"
#include "data/images/draw.h"
#include "data/pages/html.h"
#include "train/report/evaluation_sections.h"
#include "train/tasks/detection/detection_metrics.h"

namespace saccade {

// What a detector found on the images of a data set, drawn next to what is there.
class DetectionPictures {
 public:
  // Of the detections those with at least this score. `dataset` must outlive this.
  DetectionPictures(const Dataset& dataset, const std::vector<Detection>& detections, double threshold);
  // The truth left, the detections right, each within this many pixels a side;
  // nothing where the image cannot be read.
  std::optional<Image> truth_beside_found(int64_t index, int64_t side) const;

 private:
  const Dataset& dataset_;
  std::map<int64_t, std::vector<Instance>> truth_, found_;  // by image id
};

// The images on which a detector does best and worst, truth next to predictions,
// and where it looked for some of them.
void add_detection_pictures(Page& page, const Dataset& dataset, const std::vector<Detection>& detections,
                            const DetectionMetrics& metrics, const ReportOptions& options);

// Before the evaluation: throws InputError where images would share a file of labels.
void check_label_errors(const Dataset& dataset, const LabelErrorOptions& options);
// The labels that the detections contradict: a section with pictures, and the files that the options ask for.
// `remarks`: what there is to say about the set (notes_on_judged), which the page says too. ap50: of the
// detections; where it is low, their word counts little.
void add_label_errors(Page& page, const Dataset& dataset, const std::vector<Detection>& detections,
                      double ap50, const ReportOptions& options, const std::vector<std::string>& remarks);

}  // namespace saccade
