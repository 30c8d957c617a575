// What looks at regions that have been cut out of the pyramid (Ren et al. 2015, He et al. 2017). Numbers and names are those of
// mmdetection 2.
#pragma once

#include <memory>
#include <vector>

#include "layers/conv2d.h"
#include "layers/conv_transpose2d.h"
#include "layers/linear.h"

namespace saccade {

// Two linear layers that classes and boxes share ("Shared2FC").
class BoxHead : public Module {
 public:
  // background_first: class 0 is the background, as in torchvision, and never found; else it comes after all classes.
  BoxHead(int64_t channels, int64_t size, int64_t dim, int64_t classes, bool background_first = false);
  struct Result {
    Var logits;  // [R, classes + 1], background last
    Var deltas;  // [R, classes, 4]
  };
  Result forward(const Var& regions) const;  // [R, size, size, channels]
  std::string type_name() const override { return "BoxHead"; }

 private:
  int64_t classes_;
  bool background_first_;
  std::shared_ptr<Linear> first_, second_, class_, box_;
};

struct MaskHeadOptions {
  int64_t channels = 256, layers = 4;
};

class MaskHead : public Module {
 public:
  MaskHead(int64_t in, const MaskHeadOptions& options, int64_t classes);
  // regions [R, s, s, in], classes i64 [1, R] -> logits [R, 2 s, 2 s] of each region's class alone
  Var forward(const Var& regions, const Tensor& classes) const;
  std::string type_name() const override { return "MaskHead"; }

 private:
  class ClassMaps;
  std::vector<std::shared_ptr<Conv2d>> convs_;
  std::shared_ptr<ConvTranspose2d> upsample_;
  std::shared_ptr<ClassMaps> logits_;
};

}  // namespace saccade
