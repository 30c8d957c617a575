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

// Draws a detector's findings on the images of a data set next to the ground truth.
class DetectionPictures {
 public:
  // Keeps the detections with at least this score. `dataset` must outlive this object.
  DetectionPictures(const Dataset& dataset, const std::vector<Detection>& detections, double threshold);
  // Draws the truth left and the detections right, each with sides of at most this many pixels; returns
  // nothing if the image cannot be read.
  std::optional<Image> truth_beside_found(int64_t index, int64_t side) const;

 private:
  const Dataset& dataset_;
  std::map<int64_t, std::vector<Instance>> truth_, found_;  // by image id
};

// Adds the images on which a detector does best and worst, truth next to predictions, and for some of them
// where it looked.
void add_detection_pictures(Page& page, const Dataset& dataset, const std::vector<Detection>& detections,
                            const DetectionMetrics& metrics, const ReportOptions& options);

// Called before the evaluation: throws InputError if images would share a label file.
void check_label_errors(const Dataset& dataset, const LabelErrorOptions& options);
// Adds the labels that the detections contradict: a section with pictures, and the files that the options ask
// for. `remarks`: those about the set (notes_on_judged), which the page repeats. ap50: that of the
// detections; if it is low, they are weak evidence.
void add_label_errors(Page& page, const Dataset& dataset, const std::vector<Detection>& detections,
                      double ap50, const ReportOptions& options, const std::vector<std::string>& remarks);

}  // namespace saccade
