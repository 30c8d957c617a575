// DAT (Xia et al. 2022, "Vision Transformer with Deformable Attention"; the CVPR 2022 models T, S and B):
// windows, shifted windows and deformable attention in four stages, with the official parameter names.
#pragma once

#include "layers/attention.h"
#include "layers/conv2d.h"
#include "layers/linear.h"
#include "layers/norm.h"
#include "models/backbone.h"
#include "models/classifier.h"

namespace saccade {

struct DatOptions {
  std::vector<int64_t> dims, heads;  // one per stage; the stem gives dims[0]
  // One word per stage, one letter per block: L window attention, S shifted windows, D the attention layer of the
  // section `attention` (deformable attention unless it says otherwise).
  std::vector<std::string> blocks;
  std::vector<int64_t> groups, kernels, strides;  // of deformable attention, one per stage
  int64_t window = 7;
  int64_t image_size = 224;  // for which the tables of relative positions are made; any size can be given
  double drop_path = 0;      // of the last block; grows linearly from 0 at the first
  Args attention;
  // Stages whose maps forward() returns, each through its own norm; none for a classifier.
  std::vector<int64_t> outputs;

  // From model.backbone, all but the outputs; the caller finishes the section. The defaults are DAT-T's.
  static DatOptions read(const Args& args);
};

class Dat : public Backbone {
 public:
  explicit Dat(const DatOptions& options);
  std::vector<Var> forward(const Var& images) override;
  std::vector<int64_t> channels() const override;
  Var features(const Var& images);  // [N, H, W, 3] -> the last stage's map [N, H / 32, W / 32, C]
  int64_t dim() const { return options_.dims.back(); }
  std::string type_name() const override { return "DAT"; }

 private:
  class Downsampling;
  class Stage;
  // Runs the stages and hands each one's map to `visit(stage from 1, map)`.
  template <class F>
  Var run(const Var& images, const F& visit);

  DatOptions options_;
  std::shared_ptr<Downsampling> patch_embed_;
  std::vector<std::shared_ptr<Stage>> stages_;
  std::vector<std::shared_ptr<Downsampling>> downsampling_;  // from each stage to the next
  std::vector<std::shared_ptr<LayerNorm>> output_norms_;
};

// The backbone with its head: a norm, the mean over the map, one linear layer.
class DatClassifier : public Classifier {
 public:
  DatClassifier(const DatOptions& options, int64_t num_classes);
  Var forward(const Var& images) override;
  int64_t num_classes() const override { return num_classes_; }
  std::string type_name() const override { return "DatClassifier"; }
  std::vector<std::string> class_heads() const override { return {"cls_head."}; }

 private:
  int64_t num_classes_;
  std::shared_ptr<Dat> backbone_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;
};

}  // namespace saccade
