// The structure of all segmentation models here: a backbone, optionally a feature pyramid, a head, and in
// training a second head on the backbone's maps.
#pragma once

#include <string>
#include <vector>

#include "layers/args.h"
#include "layers/constant_keeper.h"
#include "models/backbone.h"
#include "models/pyramid/fpn.h"
#include "models/segmentation/pixel_head.h"
#include "models/segmenter.h"

namespace saccade {

struct PixelLossOptions {
  int64_t classes = 0;
  std::vector<double> class_weights;  // [classes], or empty for 1 each
  double auxiliary_weight = 0;
};

// Names: backbone, neck, decode_head and auxiliary_head, as in mmsegmentation.
class EncoderDecoder : public Segmenter {
 public:
  struct Parts {
    Child<Backbone> backbone;
    Child<Fpn> neck;  // null if the head uses the backbone's maps
    Child<PixelHead> head;
    Child<PixelHead> auxiliary;  // null if there is none
  };
  EncoderDecoder(std::string type, PixelLossOptions loss, const Parts& parts);

  SegmenterOutput forward(const Var& images) override;
  SegmentationLoss loss(const SegmenterOutput& output, const Tensor& labels, double divisor) const override;
  int64_t num_classes() const override { return loss_.classes; }
  std::string type_name() const override { return type_; }
  std::vector<std::string> class_heads() const override {
    return {"decode_head.conv_seg.", "auxiliary_head.conv_seg."};
  }

 private:
  Var sum_of(const Var& logits, const Tensor& labels) const;  // [1]

  std::string type_;
  PixelLossOptions loss_;
  Parts parts_;
  ConstantKeeper constants_;
};

// The stages whose maps the heads use unless the configuration names others.
inline const std::vector<int64_t> kSegmentedStages{1, 2, 3, 4};
// Throws InputError unless there are as many weights as classes.
std::vector<double> read_class_weights(const Args& criterion, int64_t classes);

}  // namespace saccade
