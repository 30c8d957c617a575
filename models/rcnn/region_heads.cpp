#include "models/rcnn/region_heads.h"

#include "layers/module_scope.h"

namespace saccade {

namespace {

constexpr double kNeverFound = -1e4;  // a logit, so that it is so in half precision too

}  // namespace

BoxHead::BoxHead(int64_t channels, int64_t size, int64_t dim, int64_t classes, bool background_first)
    : classes_(classes), background_first_(background_first) {
  const auto options = [](Initializer weight) {
    return LinearOptions{.weight_init = std::move(weight), .bias_init = init::constant(0)};
  };
  first_ = make_child<Linear>("shared_fcs.0", channels * size * size, dim, options(init::xavier_uniform()));
  second_ = make_child<Linear>("shared_fcs.1", dim, dim, options(init::xavier_uniform()));
  class_ =
      make_child<Linear>("fc_cls", dim, classes + (background_first ? 0 : 1), options(init::normal(0, 0.01)));
  box_ = make_child<Linear>("fc_reg", dim, 4 * classes, options(init::normal(0, 0.001)));
}

BoxHead::Result BoxHead::forward(const Var& regions) const {
  ModuleScope scope(*this);
  const int64_t R = regions.dim(0);
  const int channels_first[] = {0, 3, 1, 2};
  Var x = reshape(permute(regions, channels_first), {R, regions.dim(1) * regions.dim(2) * regions.dim(3)});
  x = second_->forward(first_->forward(x, Activation::kRelu), Activation::kRelu);
  Var logits = cast(class_->forward(x, Activation::kNone, ProductDtype::kSums), DType::kF32);
  if (background_first_) {
    const Var never(Tensor::full({R, 1}, kNeverFound, DType::kF32, logits.device()));
    logits = concat({never, slice(logits, 1, 1, classes_), slice(logits, 1, 0, 1)}, 1);
  }
  const Var deltas = cast(box_->forward(x, Activation::kNone, ProductDtype::kSums), DType::kF32);
  return {logits, reshape(deltas, {R, classes_, 4})};
}

// A 1x1 convolution to one map a class, of which each region makes one.
class MaskHead::ClassMaps : public Module {
 public:
  ClassMaps(int64_t channels, int64_t classes)
      : weight_(param("weight", {classes, channels, 1, 1}, init::kaiming_normal_fan_out())),
        bias_(param("bias", {classes}, init::constant(0))) {}
  Var forward(const Var& regions, const Tensor& classes) const {
    ModuleScope scope(*this);
    const int64_t R = regions.dim(0), pixels = regions.dim(1) * regions.dim(2), C = regions.dim(3);
    const int64_t K = weight_.dim(0);
    const Var weights = gather_rows(reshape(weight_, {1, K, C}), classes);
    const Var maps = matmul(reshape(regions, {R, pixels, C}), reshape(weights, {R, C, 1}));
    const Var biases = reshape(gather_rows(reshape(bias_, {1, K, 1}), classes), {R, 1});
    return reshape(add(cast(reshape(maps, {R, pixels}), DType::kF32), biases),
                   {R, regions.dim(1), regions.dim(2)});
  }
  std::string type_name() const override { return "ClassMaps"; }

 private:
  Var weight_, bias_;
};

MaskHead::MaskHead(int64_t in, const MaskHeadOptions& options, int64_t classes) {
  const Conv2dInit init{.weight = init::kaiming_normal_fan_out(), .bias_values = init::constant(0)};
  const int64_t C = options.channels;
  for (int64_t i = 0; i < options.layers; ++i)
    convs_.push_back(make_child<Conv2d>(fmt::format("convs.{}.conv", i), i == 0 ? in : C, C, 3,
                                        Conv2dOptions{.padding = 1}, init));
  upsample_ = make_child<ConvTranspose2d>("upsample", options.layers > 0 ? C : in, C, 2,
                                          init::kaiming_normal_fan_out(), init::constant(0));
  logits_ = make_child<ClassMaps>("conv_logits", C, classes);
}

Var MaskHead::forward(const Var& regions, const Tensor& classes) const {
  ModuleScope scope(*this);
  Var x = regions;
  for (const auto& conv : convs_) x = conv->forward(x, Activation::kRelu);
  return logits_->forward(upsample_->forward(x, Activation::kRelu), classes);
}

}  // namespace saccade
