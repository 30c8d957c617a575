// Base of detectors that predict a set, such as the DETR family: the set criterion and the post-processing.
#pragma once

#include "models/detection/criterion.h"
#include "models/detection/denoising.h"
#include "models/detection/postprocess.h"
#include "models/detector.h"

namespace saccade {

struct SetDetectorOptions {
  int64_t classes = 0;  // K, without the additional columns of the class loss
  int64_t queries = 0;
  bool aux_loss = false;  // the output has the predictions of every decoder layer, else only the last
  // Training only: additional query groups for one-to-many supervision (Group DETR, Chen et al. 2023).
  int64_t extra_query_groups = 0;
  DenoisingOptions denoising;  // training only; not together with extra_query_groups
  CriterionOptions criterion;

  // Reads the sections model.transformer, which the caller finishes, and criterion.
  void read(const Args& transformer, const Args& section, int64_t num_classes);
};

class SetDetector : public Detector {
 public:
  explicit SetDetector(const SetDetectorOptions& options)
      : classes_(options.classes), aux_loss_(options.aux_loss), criterion_(options.criterion) {}
  virtual SetOutput predict(const DetectorInput& input) = 0;
  std::shared_ptr<const DetectorOutput> forward(const DetectorInput& input) final {
    SACCADE_CHECK(input.images.rank() == 4 && input.images.dim(3) == 3,
                  "[detector] images of shape {}, expected [N, H, W, 3]", input.images.shape().to_string());
    return std::make_shared<SetOutput>(predict(input));
  }
  DetectionLoss loss(const DetectorOutput& output, const std::vector<Target>& targets,
                     const StepImages& step = {}) const override {
    return criterion_.forward(set_output(output), targets, step);
  }
  BatchDetections postprocess(const DetectorOutput& output, const std::vector<Target>& targets,
                              const PostprocessOptions& options) const override {
    return saccade::postprocess(set_output(output), targets, options, criterion_.class_loss());
  }
  std::function<BatchDetections()> start_postprocess(const DetectorOutput& output,
                                                     const std::vector<Target>& targets,
                                                     const PostprocessOptions& options) const override {
    return saccade::start_postprocess(set_output(output), targets, options, criterion_.class_loss());
  }

  std::vector<std::string> class_heads() const override {
    return {"class_embed.", "transformer.decoder.class_embed.", "transformer.enc_out_class_embed.",
            "label_enc."};
  }
  std::vector<std::string> repeated_heads() const override { return {"class_embed.", "bbox_embed."}; }

 protected:
  // The number of columns of the logits.
  int64_t logit_columns() const { return classes_ + criterion_.class_loss().extra_columns(); }
  int64_t classes() const { return classes_; }

  // Returns the final output: if earlier layers have no losses, only the last layer's predictions.
  SetOutput finished(SetOutput output) const;

 private:
  int64_t classes_;
  bool aux_loss_;
  SetCriterion criterion_;
};

}  // namespace saccade
