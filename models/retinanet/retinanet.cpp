// RetinaNet (Lin et al. 2017): a feature pyramid whose cells predict, for each of nine anchors, the classes
// it contains and the exact box. Names and numbers are those of mmdetection 2; differences of torchvision are
// options.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "models/backbone.h"
#include "models/build.h"
#include "models/pyramid/fpn.h"
#include "models/retinanet/dense_output.h"
#include "models/weights/inference.h"
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

constexpr int64_t kFinestStride = 8, kMaps = 3, kExtraLevels = 2;
const std::vector<int64_t> kBackboneStages{2, 3, 4};  // the stages whose maps the pyramid uses
constexpr double kAnchorSide = 4;                     // in strides, of the smallest of the three scales
constexpr double kFirstScore = 0.01;

// Joins maps [N, H, W, C] to the rows that conv2d_levels takes, and splits them again.
Var join_levels(const Vars& maps, FeatureLevels& sizes) {
  Vars rows;
  for (const Var& map : maps) {
    sizes.push_back({map.dim(1), map.dim(2)});
    rows.push_back(reshape(map, {map.dim(0) * map.dim(1) * map.dim(2), map.dim(3)}));
  }
  return concat(rows, 0);
}
Vars split_levels(const Var& rows, const FeatureLevels& sizes) {
  const int64_t N = rows.dim(0) / sizes.tokens();
  Vars maps;
  for (int64_t l = 0; l < sizes.size(); ++l) {
    const int64_t begin = N * sizes.start(l), end = begin + N * sizes[l].cells();
    maps.push_back(reshape(slice(rows, 0, begin, end), {N, sizes[l].height, sizes[l].width, rows.dim(1)}));
  }
  return maps;
}

const DenseOutput& dense_output(const DetectorOutput& output) {
  const auto* dense = dynamic_cast<const DenseOutput*>(&output);
  SACCADE_CHECK(dense != nullptr, "[retinanet] the output of another kind of detector");
  return *dense;
}

// Two towers of 3x3 convolutions, one for each prediction, shared by all levels.
class RetinaHead : public Module {
 public:
  RetinaHead(int64_t channels, int64_t layers, int64_t anchors, int64_t classes) : columns_(classes) {
    const Conv2dOptions same{.padding = 1};
    // 0.01 for the usual 256 channels; with fewer, values would otherwise shrink from layer to layer.
    const double deviation = 0.01 * std::sqrt(256.0 / static_cast<double>(channels));
    const Conv2dInit init{.weight = init::normal(0, deviation), .bias_values = init::constant(0)};
    for (auto [name, tower] : {std::pair{"cls_convs", &class_tower_}, std::pair{"reg_convs", &box_tower_}})
      for (int64_t i = 0; i < layers; ++i)
        tower->push_back(
            make_child<Conv2d>(fmt::format("{}.{}.conv", name, i), channels, channels, 3, same, init));
    Conv2dInit rare = init;
    rare.bias_values = init::constant(-std::log((1 - kFirstScore) / kFirstScore));
    class_ = make_child<Conv2d>("retina_cls", channels, anchors * classes, 3, same, rare);
    box_ = make_child<Conv2d>("retina_reg", channels, anchors * 4, 3, same, init);
  }
  // levels [N, H, W, C] each -> the predictions of the output
  void forward(const Vars& levels, DenseOutput& output) const {
    const auto tower = [](const auto& convolutions, const auto& last, Var x, const auto&... sizes) {
      for (const auto& conv : convolutions) x = conv(x, sizes..., Activation::kRelu);
      return last(x, sizes...);
    };
    if (!execution().grad_enabled) {  // the weights are prepared only once
      for (const Var& map : levels) {
        output.logits.push_back(tower(class_tower_, class_, map));
        output.deltas.push_back(tower(box_tower_, box_, map));
      }
      return;
    }
    FeatureLevels sizes;
    const Var rows = join_levels(levels, sizes);
    const Var logits = tower(class_tower_, class_, rows, sizes),
              deltas = tower(box_tower_, box_, rows, sizes);
    output.logits = split_levels(logits, sizes);
    output.deltas = split_levels(deltas, sizes);
    output.logit_rows = reshape(logits, {logits.value().numel() / columns_, columns_});
    output.delta_rows = reshape(deltas, {deltas.value().numel() / 4, 4});
  }

 private:
  std::vector<Child<Conv2d>> class_tower_, box_tower_;
  Child<Conv2d> class_, box_;
  int64_t columns_;
};

struct RetinaNetOptions {
  FpnOptions fpn;
  int64_t tower_layers = 4;
  DenseOptions dense;
};

class RetinaNet : public Detector {
 public:
  RetinaNet(const RetinaNetOptions& options, std::shared_ptr<Backbone> backbone)
      : dense_(std::make_shared<DenseOptions>(options.dense)) {
    backbone_ = child("backbone", std::move(backbone));
    const std::vector<int64_t> channels = backbone_->channels();
    neck_ =
        make_child<Fpn>("neck", std::vector<int64_t>(channels.end() - kMaps, channels.end()), options.fpn);
    head_ = make_child<RetinaHead>("bbox_head", options.fpn.channels, options.tower_layers,
                                   dense_->anchors.per_cell(), dense_->columns);
  }
  std::shared_ptr<const DetectorOutput> forward(const DetectorInput& input) override {
    SACCADE_CHECK(input.images.rank() == 4 && input.images.dim(3) == 3,
                  "[detector] images of shape {}, expected [N, H, W, 3]", input.images.shape().to_string());
    auto output = std::make_shared<DenseOutput>();
    output->options = dense_;
    output->canvas = {input.images.dim(1), input.images.dim(2)};
    output->sizes = input.sizes;
    if (input.sizes.empty()) output->sizes.assign(static_cast<size_t>(input.images.dim(0)), output->canvas);
    output->maps = dense_->anchors.maps(output->canvas);
    Vars maps = backbone_(fill_reach(input.images));
    maps.erase(maps.begin(), maps.end() - kMaps);
    for (int64_t l = 0; l < kMaps; ++l) {
      const Var& map = maps[static_cast<size_t>(l)];
      const MapSize size{map.dim(1), map.dim(2)}, wanted = output->maps[l];
      if (size != wanted)
        fail_input(
            "model.backbone: a map of {} x {} cells for images of {} x {}, expected {} x {}: a stride of {}",
            size.height, size.width, output->canvas.height, output->canvas.width, wanted.height, wanted.width,
            dense_->anchors.stride(l));
    }
    head_(neck_(maps), *output);
    return output;
  }
  DetectionLoss loss(const DetectorOutput& output, const std::vector<Target>& targets,
                     const StepImages& step = {}) const override {
    return dense_loss(dense_output(output), targets, step);
  }
  int64_t count(const Target& target) const override { return dense_count(*dense_, target); }
  void prepare(const Target& target, uint64_t /*rng_key*/) const override { dense_count(*dense_, target); }
  ResultForm result_form() const override { return {.least_score = dense_->score_threshold}; }
  std::vector<std::vector<ImageDetection>> postprocess(const DetectorOutput& output,
                                                       const std::vector<Target>& targets,
                                                       const PostprocessOptions& options) const override {
    return dense_detections(dense_output(output), targets, options);
  }
  std::vector<std::string> class_heads() const override { return {"bbox_head.retina_cls."}; }

 private:
  std::shared_ptr<const DenseOptions> dense_;
  Child<Backbone> backbone_;
  Child<Fpn> neck_;
  Child<RetinaHead> head_;
};

// Checks the strides of the maps, as far as the configuration gives them, before anything is computed.
void check_strides(const Args& backbone, int64_t maps) {
  const std::vector<int64_t> outputs = backbone.get_ints("outputs", kBackboneStages);
  if (maps < kMaps || outputs.size() < kBackboneStages.size() ||
      !std::equal(kBackboneStages.rbegin(), kBackboneStages.rend(), outputs.rbegin()))
    fail_input("{}.outputs: stages {} with {} maps, expected {} as the last ones, with strides 8, 16 and 32",
               backbone.path(), fmt::join(outputs, ", "), maps, fmt::join(kBackboneStages, ", "));
  if (backbone.has("dilation") && backbone.get_bool("dilation"))
    fail_input("{}.dilation: true leaves the last map at stride 16, expected false", backbone.path());
}

AnchorOptions anchor_options(bool like_torchvision) {
  AnchorOptions options{.strides = {}, .scales = {}, .whole_pixels = like_torchvision};
  for (int64_t l = 0; l < kMaps + kExtraLevels; ++l) options.strides.push_back(kFinestStride << l);
  for (double octave : {0.0, 1.0, 2.0}) options.scales.push_back(kAnchorSide * std::exp2(octave / 3));
  return options;
}

std::shared_ptr<Module> build_retinanet(const Args& model, int64_t classes, const Args& criterion) {
  const Args& own = model.get_section("retinanet");
  const bool like_torchvision = own.get_string("conventions") == "torchvision";
  if (const std::string loss = criterion.get_string("class_loss"); loss != "focal")
    fail_input("{}.class_loss: \"{}\", but RetinaNet only supports focal", criterion.path(), loss);
  RetinaNetOptions options{
      .fpn = {.channels = own.get_int("channels"),
              .extra_levels = kExtraLevels,
              .extra = own.get_string("coarse_levels") == "backbone" ? FpnOptions::Extra::kConvOnInput
                                                                     : FpnOptions::Extra::kConvOnPyramid,
              .extra_relu = like_torchvision},
      .tower_layers = own.get_int("tower_layers"),
      .dense = {.anchors = Anchors(anchor_options(like_torchvision)),
                .coder = {.limits_shrinking = !like_torchvision},
                .columns = classes,
                .class_weight = criterion.get_float("class_weight"),
                .bbox_weight = criterion.get_float("bbox_weight"),
                .focal_alpha = criterion.get_float("focal_alpha"),
                .focal_gamma = criterion.get_float("focal_gamma"),
                .score_threshold = own.get_float("score_threshold"),
                .candidates = own.get_int("candidates")}};
  own.finish("RetinaNet");
  const Args& section = model.get_section("backbone");
  auto backbone = build_backbone(section, kBackboneStages);
  check_strides(section, std::ssize(backbone->channels()));
  return std::make_shared<RetinaNet>(options, std::move(backbone));
}

constexpr int64_t kAnchors = 9;
constexpr int64_t kTorchvisionDetections = 300;
const std::string kTorchvisionRetinaNet = "torchvision RetinaNet";

// For its versions from 0.13 on, whose convolutions are in blocks, and older ones, which also count ReLUs.
WeightRules torchvision_names() {
  WeightRules rules = torchvision_pyramid_rules();
  rules.push_back({"backbone.fpn.extra_blocks.p6.", "neck.fpn_convs.3.conv."});
  rules.push_back({"backbone.fpn.extra_blocks.p7.", "neck.fpn_convs.4.conv."});
  rules.push_back({"head.classification_head.cls_logits.", "bbox_head.retina_cls."});
  rules.push_back({"head.regression_head.bbox_reg.", "bbox_head.retina_reg."});
  for (const auto& [head, tower] : {std::pair{"classification", "cls"}, std::pair{"regression", "reg"}}) {
    const std::string from = fmt::format("head.{}_head.conv.", head),
                      to = fmt::format("bbox_head.{}_convs.", tower);
    rules.push_back({from + "*.0.", to + "*.conv."});
    for (int i = 0; i < 4; ++i)
      rules.push_back({fmt::format("{}{}.", from, 2 * i), fmt::format("{}{}.conv.", to, i)});
  }
  return rules;
}

[[maybe_unused]] const bool torchvision_retinanet =
    weight_namings().add({.name = kTorchvisionRetinaNet,
                          .markers = {"head.classification_head.cls_logits.weight"},
                          .rules = torchvision_names(),
                          .scope = WeightNaming::kDetector});

bool infer_retinanet(Inference& in) {
  const std::string logits = "bbox_head.retina_cls.weight", deltas = "bbox_head.retina_reg.weight";
  if (!in.has(logits) || !in.has("neck.lateral_convs.0.conv.weight")) return false;
  infer_backbone(in, "backbone.");
  if (in.size(deltas, 0) != 4 * kAnchors || in.size(logits, 0) % kAnchors != 0)
    fail_input("{}: its heads have {} and {} outputs, expected those of {} anchors per cell", in.path(),
               in.size(logits, 0), in.size(deltas, 0), kAnchors);
  const std::string own = "model.retinanet.", last = "neck.lateral_convs.2.conv.weight",
                    coarse = "neck.fpn_convs.3.conv.weight";
  const bool is_torchvision = in.naming() == kTorchvisionRetinaNet;
  const int64_t channels = in.size(last, 0), of_backbone = in.size(last, 1);
  in.set("model.num_classes", in.size(logits, 0) / kAnchors);
  in.set(own + "channels", channels);
  in.set(own + "tower_layers", in.count("bbox_head.cls_convs.", ".conv.weight"));
  // If both have equally many channels, the sizes do not tell.
  const Args& given = in.given().get_section("retinanet");
  if (!given.has("coarse_levels")) {
    const bool from_pyramid = channels == of_backbone ? is_torchvision : in.size(coarse, 1) == channels;
    in.set(own + "coarse_levels", from_pyramid ? "pyramid" : "backbone");
  }
  if (is_torchvision) {
    in.set(own + "conventions", "torchvision");
    in.set("eval.max_detections", kTorchvisionDetections);
  }
  in.set("data.pad_multiple", 32);
  return true;
}

[[maybe_unused]] const bool retinanet_registered =
    model_types().add({.name = "retinanet",
                       .summary = "RetinaNet (Lin et al. 2017)",
                       .task = "detection",
                       .build = build_retinanet,
                       .parts = {"retinanet"},
                       .infer = infer_retinanet,
                       .preset = "criterion { class_loss: focal class_weight: 1 bbox_weight: 1 }"
                                 "eval { nms: 0.5 }"});

}  // namespace

std::vector<std::pair<std::string, Var>> DenseOutput::results() const {
  const int64_t N = logits[0].dim(0), A = options->anchors.per_cell(), anchors = maps.tokens() * A;
  auto joined = [&](const Vars& all, int64_t columns) {
    Vars flat;
    for (size_t l = 0; l < all.size(); ++l)
      flat.push_back(reshape(all[l], {N, maps[static_cast<int64_t>(l)].cells() * A, columns}));
    return concat(flat, 1);
  };
  const Device device = logits[0].device();
  const Tensor from = Tensor::from<float>({1, anchors, 4}, options->anchors.boxes(canvas), device);
  const Tensor size = Tensor::from<float>(
      {1, 2}, std::vector{static_cast<float>(canvas.width), static_cast<float>(canvas.height)}, device);
  const Var boxes = cut_boxes(options->coder.decode(joined(deltas, 4), from), size);
  const Var low = slice(boxes, -1, 0, 2), high = slice(boxes, -1, 2, 4),
            whole = reshape(Var(size), {1, 1, 2});
  return {{"logits", joined(logits, options->columns)},
          {"boxes", concat({div(mul_scalar(add(low, high), 0.5), whole), div(sub(high, low), whole)}, -1)}};
}

}  // namespace saccade
