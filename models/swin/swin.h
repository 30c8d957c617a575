// Swin Transformer (Liu et al. 2021), with the official parameter names. As a backbone it is the official
// detection variant: each chosen stage's map goes through a layer norm of its own (`norm0`, `norm1`, ... by
// stage), and windows always keep their size and shift. As a classifier, a map no larger than the window is one
// window without a shift; then `norm`, the mean over the tokens and `head`.
// Images of any size: zeros fill the image up to whole patches, and odd maps before a merging. What a batch's
// smaller images are padded with are zeros too, and tokens like any other; only the detector masks them.
#pragma once

#include "layers/args.h"
#include "layers/norm.h"
#include "models/backbone.h"
#include "models/classifier.h"

namespace saccade {

struct SwinOptions {
  int64_t embed_dim = 96;  // channels of the first stage; each further stage has twice as many
  std::vector<int64_t> depths{2, 2, 6, 2};
  std::vector<int64_t> heads{3, 6, 12, 24};
  int64_t window = 7;
  int64_t patch = 4;
  double mlp_ratio = 4;
  double drop_path = 0;                   // of the last block
  Args attention;                         // section of the blocks' attention layer; empty: `window`
  std::vector<int64_t> attention_stages;  // that use it (1 is the first); empty: all
};

class SwinStages;

class Swin : public Backbone {
 public:
  Swin(const SwinOptions& options, const std::vector<int64_t>& outputs);
  std::vector<Var> forward(const Var& images) override;
  std::vector<int64_t> channels() const override;
  std::string type_name() const override { return "Swin"; }

 private:
  std::vector<int64_t> outputs_;
  std::shared_ptr<SwinStages> stages_;
  std::vector<std::shared_ptr<LayerNorm>> norms_;  // one per output
};

}  // namespace saccade
