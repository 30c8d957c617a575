// Ops of pyramid detectors with two stages: regions cut out of maps, suppression, resizing.
#include <cmath>

#include "train/export/lowering.h"

namespace saccade {
namespace {

using Sizes = std::vector<int64_t>;

std::string cast_to(Lowering& l, const std::string& x, onnx::TensorProto::DataType type) {
  return l.node("Cast", {x}, {{"to", int64_t{type}}});
}

// levels [N, H, W, C], rois [R, 4], level and image of each [R] -> [R, size, size, C]: every level computes
// all regions, and those that belong to other levels are multiplied by 0.
SACCADE_LOWERING(roi_align) {
  const int64_t size = l.integer("size");
  const Sizes& strides = l.integers("strides");
  const std::string rois = l.tensor("rois"), levels = l.tensor("level_of_roi"),
                    images = l.tensor("image_of_roi");
  std::string sum;
  for (size_t i = 0; i < l.inputs(); ++i) {
    const OnnxAttributes attributes{{"coordinate_transformation_mode",
                                     std::string(l.integer("aligned") ? "half_pixel" : "output_half_pixel")},
                                    {"mode", std::string("avg")},
                                    {"output_height", size},
                                    {"output_width", size},
                                    {"sampling_ratio", l.integer("sampling_ratio")},
                                    {"spatial_scale", 1 / static_cast<float>(strides[i])}};
    std::string regions = l.node("RoiAlign", {l.channels_first(i), rois, images}, attributes);
    if (l.inputs() > 1) {
      const std::string own =
          cast_to(l, l.node("Equal", {levels, l.graph().ints({static_cast<int64_t>(i)}, "level")}),
                  onnx::TensorProto::FLOAT);
      regions = l.node("Mul", {regions, l.reshape(own, {-1, 1, 1, 1})});
    }
    sum = i == 0 ? regions : l.node("Add", {sum, regions});
  }
  l.result_channels_first(sum);
}

// boxes [R, 4] -> i64 [R]: how many of the sides 2, 4, .. times `side` a box reaches
SACCADE_LOWERING(roi_levels, true) {
  const std::string sides = l.node("Sub", {l.slice(l.input(0), 1, 2, 4), l.slice(l.input(0), 1, 0, 2)});
  const std::string area = l.node("Mul", {l.slice(sides, 1, 0, 1), l.slice(sides, 1, 1, 2)});
  const std::string own = l.node(
      "Add",
      {l.node("Div", {l.node("Sqrt", {area}), l.graph().scalar(l.number("side"))}), l.graph().scalar(1e-6)});
  std::vector<float> limits;
  for (int64_t i = 1; i < l.integer("count"); ++i) limits.push_back(std::exp2(static_cast<float>(i)));
  const std::string reached = cast_to(
      l,
      l.node("GreaterOrEqual",
             {own, l.graph().constant(Tensor::from<float>({1, std::ssize(limits)}, limits), "limits")}),
      onnx::TensorProto::INT64);
  l.result(l.node("ReduceSum", {reached, l.graph().ints({1}, "axes")}, {{"keepdims", 0}}));
}

// boxes [N, K, 4], scores [N, K], groups [N, K] of numbers below `groups` -> keep bool [N, K]: the groups are
// ONNX's classes
SACCADE_LOWERING(nms, true) {
  const int64_t K = l.shape(1)[1], groups = l.integer("groups");
  std::vector<float> numbers;
  for (int64_t g = 0; g < groups; ++g) numbers.push_back(static_cast<float>(g));
  constexpr double kNoScore = -3e38;
  const std::string of_group =
      l.node("Equal", {l.node("Unsqueeze", {l.input(2), l.graph().ints({1}, "axes")}),
                       l.graph().constant(Tensor::from<float>({1, groups, 1}, numbers), "groups")});
  const std::string scores = l.node(
      "Where",
      {of_group, l.node("Unsqueeze", {l.input(1), l.graph().ints({1}, "axes")}), l.graph().scalar(kNoScore)});
  auto one = [&](double value) {
    return l.graph().constant(Tensor::from<float>({1}, std::vector{static_cast<float>(value)}), "threshold");
  };
  const std::string chosen = l.node("NonMaxSuppression", {l.input(0), scores, l.graph().ints({K}, "most"),
                                                          one(l.number("threshold")), one(kNoScore / 2)});
  const std::string places = l.node("Gather", {chosen, l.graph().ints({0, 2}, "columns")}, {{"axis", 1}});
  const std::string first = l.reshape(l.slice(chosen, 1, 0, 1), {-1});
  l.result(l.node("ScatterND", {l.node("Less", {l.input(1), l.input(1)}), places,
                                l.node("Equal", {first, first})}));  // all false, true at the chosen places
}

// rows [N, K] -> i64 [N K]: the image of each
SACCADE_LOWERING(images_of_rows) {
  auto number = [&](int64_t value) {
    return l.graph().constant(Tensor::scalar(static_cast<double>(value), DType::kI64), "number");
  };
  const std::string count = l.node("Squeeze", {l.shape_of(l.result_traced()), l.graph().ints({0}, "axes")});
  l.result(l.node("Div", {l.node("Range", {number(0), count, number(1)}), number(l.shape(0)[1])}));
}

SACCADE_LOWERING(whole_numbers) { l.result(cast_to(l, l.input(0), onnx::TensorProto::INT64)); }

void resize(Lowering& l, const OnnxAttributes& attributes) {
  TracedValue result = l.result_traced();
  const Shape y = result.shape;
  result.shape = {y[0], y[3], y[1], y[2]};  // channels first; only the first axis grows
  l.result_channels_first(l.node("Resize", {l.channels_first(0), "", "", l.shape_of(result)}, attributes));
}

SACCADE_LOWERING(resize_nearest) {
  resize(l, {{"mode", std::string("nearest")},
             {"coordinate_transformation_mode", std::string("asymmetric")},
             {"nearest_mode", std::string("floor")}});
}

SACCADE_LOWERING(resize_bilinear) {
  resize(l, {{"mode", std::string("linear")}, {"coordinate_transformation_mode", std::string("half_pixel")}});
}

}  // namespace
}  // namespace saccade
