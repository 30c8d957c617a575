#include "models/build.h"

#include "models/dat/dat.h"
#include "models/deformable_detr/deformable_detr.h"
#include "models/detr/detr.h"
#include "models/resnet/resnet.h"
#include "models/swin/swin.h"
#include "models/vit/vit.h"

namespace saccade {

std::shared_ptr<Detector> build_detector(const Args& model, int64_t num_classes) {
  std::string type = model.get_choice("type", "deformable_detr", {"deformable_detr", "detr"});
  return type == "detr" ? build_detr(model, num_classes) : build_deformable_detr(model, num_classes);
}

std::shared_ptr<Backbone> build_backbone(const Args& args, const std::vector<int64_t>& default_outputs) {
  std::string type = args.get_choice("type", "resnet", {"resnet", "swin", "vit", "dat"});
  if (type == "swin") return build_swin(args, default_outputs);
  if (type == "vit") return build_vit(args);
  if (type == "dat") return build_dat(args, default_outputs);
  return build_resnet(args, default_outputs);
}

std::shared_ptr<Classifier> build_classifier(const Args& model, int64_t num_classes) {
  model.get_choice("type", "classifier", {"classifier"});
  const Args& args = model.get_section("backbone");
  std::string type = args.get_choice("type", "resnet", {"resnet", "swin", "vit", "dat"});
  if (type == "swin") return build_swin_classifier(args, num_classes);
  if (type == "vit") return build_vit_classifier(args, num_classes);
  if (type == "dat") return build_dat_classifier(args, num_classes);
  return build_resnet_classifier(args, num_classes);
}

}  // namespace saccade
