// Heads for regions that have been cut out of the pyramid (Ren et al. 2015, He et al. 2017). Numbers and
// names are those of mmdetection 2.
#pragma once

#include <memory>
#include <vector>

#include "layers/conv2d.h"
#include "layers/linear.h"
#include "models/common/conv_norm.h"

namespace saccade {

struct BoxHeadOptions {
  int64_t convs = 0;   // 3x3 convolutions, each with a batch norm
  int64_t layers = 2;  // linear layers ("Shared2FC")
  int64_t dim = 1024;  // width of the linear layers
  int64_t classes = 0;
  bool class_agnostic = false;    // one box for all classes
  bool background_first = false;  // class 0 is the background, as in torchvision; else it is the last class
};

// Layers shared by classes and boxes, then one linear layer for each.
class BoxHead : public Module {
 public:
  BoxHead(int64_t channels, int64_t size, const BoxHeadOptions& options);
  struct Result {
    Var logits;  // [R, classes + 1], background last
    Var deltas;  // [R, classes, 4], class-agnostic [R, 1, 4]
  };
  Result forward(const Var& regions) const;  // [R, size, size, channels]
  // Returns for each region the deltas [R, 4] of its class, which is given by labels i64 [R] if at least 0,
  // else the most likely one other than the background. labels: on the host; empty if all are -1.
  static Var likely_deltas(const Result& result, const std::vector<int64_t>& labels = {});

 private:
  BoxHeadOptions options_;
  std::vector<Child<ConvNorm>> convs_;
  std::vector<Child<Linear>> layers_;
  Child<Linear> class_, box_;
};

struct MaskHeadOptions {
  int64_t channels = 256, layers = 4;
};

class MaskHead : public Module {
 public:
  MaskHead(int64_t in, const MaskHeadOptions& options, int64_t classes);
  // regions [R, s, s, in], classes i64 [1, R] -> logits [R, 2 s, 2 s] of each region's class only
  Var forward(const Var& regions, const Tensor& classes) const;

 private:
  class ClassMaps;
  std::vector<Child<Conv2d>> convs_;
  Child<ConvTranspose2d> upsample_;
  Child<ClassMaps> logits_;
};

}  // namespace saccade
