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
  std::vector<int64_t> dims, heads;  // a number a stage; the stem gives dims[0]
  // A word a stage, a letter a block: L window attention, S shifted windows, D the attention layer of the
  // section `attention` (deformable attention unless it says otherwise).
  std::vector<std::string> blocks;
  std::vector<int64_t> groups, kernels, strides;  // of deformable attention, a number a stage
  int64_t window = 7;
  int64_t image_size = 224;  // for which the tables of relative positions are made; any size can be given
  double drop_path = 0;      // of the last block; grows linearly from 0 at the first
  Args attention;
  std::vector<int64_t>
      outputs;  // stages whose maps forward() returns, each through its own norm; may be empty

  // From model.backbone; the defaults are DAT-T's.
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
  class Stage;
  // Runs the stages and hands each one's map to `visit(stage from 1, map)`.
  template <class F>
  Var run(const Var& images, const F& visit);

  DatOptions options_;
  std::shared_ptr<Conv2d> patch_conv_;
  std::shared_ptr<LayerNorm> patch_norm_;
  std::vector<std::shared_ptr<Stage>> stages_;
  std::vector<std::shared_ptr<Conv2d>> down_convs_;
  std::vector<std::shared_ptr<LayerNorm>> down_norms_;
  std::vector<std::shared_ptr<LayerNorm>> output_norms_;
};

// The backbone with its head: a norm, the mean over the map, one linear layer.
class DatClassifier : public Classifier {
 public:
  DatClassifier(const DatOptions& options, int64_t num_classes);
  Var forward(const Var& images) override;
  int64_t num_classes() const override { return num_classes_; }
  std::string type_name() const override { return "DatClassifier"; }

 private:
  int64_t num_classes_;
  std::shared_ptr<Dat> backbone_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;
};

}  // namespace saccade
