#include "models/rcnn/region_heads.h"

#include <algorithm>

#include "core/runtime/packed_upload.h"
#include "models/common/token_maps.h"

namespace saccade {

namespace {

constexpr double kNeverFound = -1e4;  // a logit that also fits half precision

}  // namespace

BoxHead::BoxHead(int64_t channels, int64_t size, const BoxHeadOptions& options) : options_(options) {
  const auto linear = [](Initializer weight) {
    return LinearOptions{.weight_init = std::move(weight), .bias_init = init::constant(0)};
  };
  for (int64_t i = 0; i < options.convs; ++i)
    convs_.push_back(make_child<ConvNorm>(fmt::format("shared_convs.{}", i), channels, channels,
                                          ConvNormOptions{.kernel = 3,
                                                          .activation = Activation::kRelu,
                                                          .weight_init = init::kaiming_normal_fan_out(),
                                                          .norm_name = "bn"}));
  const int64_t dim = options.dim, K = options.classes;
  for (int64_t i = 0; i < options.layers; ++i)
    layers_.push_back(make_child<Linear>(fmt::format("shared_fcs.{}", i),
                                         i == 0 ? channels * size * size : dim, dim,
                                         linear(init::xavier_uniform())));
  class_ = make_child<Linear>("fc_cls", dim, K + (options.background_first ? 0 : 1),
                              linear(init::normal(0, 0.01)));
  box_ =
      make_child<Linear>("fc_reg", dim, 4 * (options.class_agnostic ? 1 : K), linear(init::normal(0, 0.001)));
}

BoxHead::Result BoxHead::forward(const Var& regions) const {
  Var x = regions;
  for (const auto& conv : convs_) x = conv(x);
  const int64_t R = x.dim(0), K = options_.classes;
  const int channels_first[] = {0, 3, 1, 2};
  x = reshape(permute(x, channels_first), {R, x.dim(1) * x.dim(2) * x.dim(3)});
  for (const auto& layer : layers_) x = layer(x, Activation::kRelu);
  Var logits = cast(class_(x, Activation::kNone, ProductDtype::kSums), DType::kF32);
  if (options_.background_first) {
    const Var never(Tensor::full({R, 1}, kNeverFound, DType::kF32, logits.device()));
    logits = concat({never, slice(logits, 1, 1, K), slice(logits, 1, 0, 1)}, 1);
  }
  const Var deltas = cast(box_(x, Activation::kNone, ProductDtype::kSums), DType::kF32);
  return {logits, reshape(deltas, {R, options_.class_agnostic ? 1 : K, 4})};
}

Var BoxHead::likely_deltas(const Result& result, const std::vector<int64_t>& labels) {
  const NoGrad no_grad;
  const int64_t R = result.logits.dim(0), K = result.logits.dim(1) - 1;
  if (result.deltas.dim(1) == 1) return reshape(result.deltas, {R, 4});
  const Tensor likely = best_tokens(reshape(slice(result.logits, 1, 0, K), {R, K, 1}).value(), 1, 1);
  Var of_likely = reshape(gather_rows(result.deltas, likely), {R, 4});
  if (labels.empty()) return of_likely;
  std::vector<int64_t> known(labels);
  std::vector<float> is_known;
  for (int64_t& label : known) {
    is_known.push_back(label >= 0 ? 1 : 0);
    label = std::max<int64_t>(label, 0);
  }
  PackedUpload upload;
  upload.add(Shape{R, 1}, known);
  upload.add(Shape{R, 1}, is_known);
  const std::vector<Tensor> t = upload.upload(result.logits.device());
  const Var of_known = reshape(gather_rows(result.deltas, t[0]), {R, 4});
  return add(mul(of_known, Var(t[1])), mul(of_likely, add_scalar(neg(Var(t[1])), 1)));
}

// A 1x1 convolution to one map per class; only the map of each region's class is computed.
class MaskHead::ClassMaps : public Module {
 public:
  ClassMaps(int64_t channels, int64_t classes)
      : weight_(param("weight", {classes, channels, 1, 1}, init::kaiming_normal_fan_out())),
        bias_(param("bias", {classes}, init::constant(0))) {}
  // [R, pixels, channels] -> [R, pixels]
  Var forward(const Var& regions, const Tensor& classes) const {
    const int64_t R = regions.dim(0), pixels = regions.dim(1), C = regions.dim(2), K = weight_.dim(0);
    const Var weights = gather_rows(reshape(weight_, {1, K, C}), classes);
    const Var maps = matmul(regions, reshape(weights, {R, C, 1}));
    const Var biases = reshape(gather_rows(reshape(bias_, {1, K, 1}), classes), {R, 1});
    return add(cast(reshape(maps, {R, pixels}), DType::kF32), biases);
  }

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
  Var x = regions;
  for (const auto& conv : convs_) x = conv(x, Activation::kRelu);
  // Every cell becomes a window of its own; the windows are joined to maps once one channel is left.
  const int64_t R = x.dim(0), H = x.dim(1), W = x.dim(2);
  const Var windows = upsample_(reshape(x, {R * H * W, 1, 1, x.dim(3)}), Activation::kRelu);
  const int64_t side = windows.dim(1), pixels = H * W * side * side;
  const Var logits = logits_(reshape(windows, {R, pixels, windows.dim(3)}), classes);
  const int rows_together[] = {0, 1, 3, 2, 4};
  return reshape(permute(reshape(logits, {R, H, W, side, side}), rows_together), {R, H * side, W * side});
}

}  // namespace saccade
