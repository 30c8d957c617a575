#include "models/rcnn/rcnn.h"

#include <algorithm>
#include <bit>

#include "core/runtime/host_copy.h"
#include "core/runtime/packed_upload.h"
#include "models/rcnn/regions.h"

namespace saccade {
namespace {

const RcnnOutput& rcnn_output(const DetectorOutput& output) {
  const auto* own = dynamic_cast<const RcnnOutput*>(&output);
  SACCADE_CHECK(own != nullptr, "[detector] the output of a detector of another kind");
  return *own;
}

// Rounds up by at most an eighth, or to a multiple of 8: libraries prepare themselves anew for every size.
int64_t fixed_count(int64_t count) {
  const auto few = static_cast<uint64_t>(std::max<int64_t>(count, 64));
  return round_up(count, static_cast<int64_t>(std::bit_floor(few) / 8));
}

// Returns the levels that regions are cut out of: all but the coarsest.
Vars region_levels(const Vars& levels) { return {levels.begin(), levels.end() - 1}; }

}  // namespace

Rcnn::Rcnn(const RcnnOptions& options, std::shared_ptr<Backbone> backbone)
    : options_(options), backbone_(child("backbone", std::move(backbone))) {
  const int64_t C = options.fpn.channels;
  neck_ = make_child<Fpn>("neck", backbone_->channels(), options.fpn);
  rpn_ = make_child<Rpn>("rpn_head", C, options.rpn);
  for (size_t t = 0; t < options.stages.size(); ++t) {
    const std::string number = options.stages.size() > 1 ? fmt::format(".{}", t) : "";
    box_heads_.push_back(
        make_child<BoxHead>("roi_head.bbox_head" + number, C, options.box_regions.size, options.box_head));
    if (options.masks)
      mask_heads_.push_back(make_child<MaskHead>("roi_head.mask_head" + number, C, options.mask_head,
                                                 options.box_head.classes));
  }
}

Vars Rcnn::pyramid(const DetectorInput& input) const {
  SACCADE_CHECK(input.images.rank() == 4 && input.images.dim(3) == 3,
                "[detector] images of shape {}, expected [N, H, W, 3]", input.images.shape().to_string());
  Vars levels = neck_(backbone_(fill_reach(input.images)));
  const FeatureLevels maps = rpn_->anchors().maps({input.images.dim(1), input.images.dim(2)});
  for (size_t l = 0; l < levels.size(); ++l) {
    const MapSize map{levels[l].dim(1), levels[l].dim(2)}, expected = maps[static_cast<int64_t>(l)];
    if (map != expected)
      fail_input(
          "model.backbone: {} x {} cells of level {} for images of {} x {}, expected {} x {}: a stride of {}",
          map.height, map.width, l, input.images.dim(1), input.images.dim(2), expected.height, expected.width,
          rpn_->anchors().stride(static_cast<int64_t>(l)));
  }
  return levels;
}

std::shared_ptr<const DetectorOutput> Rcnn::forward(const DetectorInput& input) {
  auto output = std::make_shared<RcnnOutput>();
  const int64_t N = input.images.dim(0);
  output->canvas = {input.images.dim(1), input.images.dim(2)};
  output->sizes = input.sizes;
  if (input.sizes.empty()) output->sizes.assign(static_cast<size_t>(N), output->canvas);
  const Vars levels = pyramid(input);
  output->rpn = rpn_(levels);
  std::vector<float> limits;
  for (const ImageSize& size : output->sizes)
    limits.insert(limits.end(), {static_cast<float>(size.width), static_cast<float>(size.height)});
  const Tensor sizes = Tensor::from<float>({N, 2}, limits, input.images.device());
  const ProposedRegions proposals = rpn_->propose(output->rpn, output->sizes, sizes);
  if (input.targets)
    learn(region_levels(levels), proposals, *input.targets, *output);
  else
    find(region_levels(levels), proposals, sizes, *output);
  return output;
}

std::vector<std::string> Rcnn::class_heads() const {
  std::vector<std::string> prefixes;
  for (size_t t = 0; t < box_heads_.size(); ++t) {
    const std::string number = box_heads_.size() > 1 ? fmt::format("{}.", t) : "";
    prefixes.push_back("roi_head.bbox_head." + number + "fc_cls.");
    if (!options_.box_head.class_agnostic) prefixes.push_back("roi_head.bbox_head." + number + "fc_reg.");
    prefixes.push_back("roi_head.mask_head." + number + "conv_logits.");
  }
  return prefixes;
}

void Rcnn::learn(const Vars& levels, const ProposedRegions& proposals, const std::vector<Target>& targets,
                 RcnnOutput& output) const {
  const HostCopy boxes(proposals.boxes.value()), scores(proposals.scores.value());
  const float* best = scores.data<float>();  // the later copy, so that the host waits once
  BoxLists lists = boxes_of_images(boxes.data<float>(), best, std::ssize(targets), proposals.scores.dim(1));
  for (size_t t = 0; t < options_.stages.size(); ++t) {
    output.stages.push_back(learn_stage(t, levels, lists, targets));
    if (t + 1 == options_.stages.size()) break;
    const NoGrad no_grad;
    const StageOutput& stage = output.stages.back();
    std::vector<int64_t> labels = filled(stage.samples.labels, stage.boxes.dim(0), int64_t{-1});
    std::ranges::replace(labels, options_.box_head.classes, int64_t{-1});
    const Var moved =
        options_.stages[t].coder.decode(BoxHead::likely_deltas(stage.regions, labels), stage.boxes);
    const HostCopy copy(moved.value());
    lists = moved_samples(stage.samples, copy.data<float>(), output.sizes);
  }
}

StageOutput Rcnn::learn_stage(size_t stage, const Vars& levels, const BoxLists& proposals,
                              const std::vector<Target>& targets) const {
  const RoiSampling& sampling = options_.stages[stage].sampling;
  StageOutput output;
  output.samples =
      sample_rois(proposals, targets, options_.box_head.classes, sampling, fmt::format("rcnn.{}", stage));
  const RoiSamples& s = output.samples;
  // Rows that pad the tables are cut out of no image, so they are 0 and count for nothing,
  // but batch norms would see them.
  const int64_t R = options_.box_head.convs > 0 ? std::max<int64_t>(s.count(), 1) : fixed_count(s.count()),
                P = fixed_count(std::ssize(s.objects));
  std::vector<float> object_rois;
  std::vector<int64_t> object_images, object_classes;
  for (const RoiObject& o : s.objects) {
    object_rois.insert(object_rois.end(), s.boxes.begin() + 4 * o.roi, s.boxes.begin() + 4 * o.roi + 4);
    object_images.push_back(o.image);
    object_classes.push_back(s.labels[static_cast<size_t>(o.roi)]);
  }
  PackedUpload upload;
  upload.add(Shape{R, 4}, filled(s.boxes, 4 * R, 0.0f));
  upload.add(Shape{R}, filled(s.images, R, int64_t{-1}));
  upload.add(Shape{P, 4}, filled(object_rois, 4 * P, 0.0f));
  upload.add(Shape{P}, filled(object_images, P, int64_t{-1}));
  upload.add(Shape{1, P}, filled(object_classes, P, int64_t{0}));
  const std::vector<Tensor> t = upload.upload(levels[0].device());
  output.boxes = t[0];
  output.regions = box_heads_[stage](cut_regions(levels, t[0], t[1], options_.box_regions));
  if (!mask_heads_.empty() && P > 0)
    output.mask_logits = mask_heads_[stage](cut_regions(levels, t[2], t[3], options_.mask_regions), t[4]);
  return output;
}

void Rcnn::find(const Vars& levels, const ProposedRegions& proposals, const Tensor& limits,
                RcnnOutput& output) const {
  const int64_t N = proposals.scores.dim(0), P = proposals.scores.dim(1);
  const size_t last = options_.stages.size() - 1;
  const Tensor images = images_of_rows(proposals.scores);
  ProposedRegions moved = proposals;
  BoxHead::Result result;
  Var logits;  // the sum over the stages
  for (size_t t = 0; t <= last; ++t) {
    const Var boxes = reshape(moved.boxes, {N * P, 4});
    result = box_heads_[t](cut_regions(levels, boxes.value(), images, options_.box_regions));
    logits = t == 0 ? result.logits : add(logits, result.logits);
    if (t == last) break;
    const Var refined = options_.stages[t].coder.decode(BoxHead::likely_deltas(result), boxes.value());
    moved.boxes = cut_boxes(reshape(refined, {N, P, 4}), limits);
  }
  if (last > 0) result.logits = mul_scalar(logits, 1 / static_cast<double>(last + 1));
  output.found = best_detections(moved, result, limits, options_.stages[last].coder, options_.detections);
  if (!mask_heads_.empty()) output.found.masks = find_masks(levels, output.found);
}

// Averages the outputs of the stages.
Var Rcnn::find_masks(const Vars& levels, const RegionDetections& found) const {
  const int64_t N = found.scores.dim(0), D = found.scores.dim(1);
  const Var inside = cut_regions(levels, reshape(found.boxes, {N * D, 4}).value(),
                                 images_of_rows(found.scores), options_.mask_regions);
  const Tensor classes = whole_numbers(reshape(found.labels, {1, N * D}));
  Var maps;
  for (const auto& head : mask_heads_) {
    const Var own = sigmoid(head(inside, classes));
    maps = maps.defined() ? add(maps, own) : own;
  }
  if (mask_heads_.size() > 1) maps = mul_scalar(maps, 1 / static_cast<double>(mask_heads_.size()));
  return reshape(maps, {N, D, maps.dim(1), maps.dim(2)});
}

DetectionLoss Rcnn::loss(const DetectorOutput& output, const std::vector<Target>& targets,
                         const StepImages& step) const {
  const RcnnOutput& out = rcnn_output(output);
  SACCADE_CHECK(!out.stages.empty(), "[rcnn] a loss of an output that was made without targets");
  const StepImages images = step.empty() ? StepImages(targets) : step;
  DetectionLoss result;
  Vars sums;
  std::vector<WeightedTerm> terms;
  std::vector<std::string> names;
  auto add_part = [&](const std::string& name, const Var& sum, double weight) {
    terms.push_back({sums.size(), 0, weight});
    sums.push_back(reshape(sum, {1}));
    names.push_back(name);
  };
  const RpnLoss rpn = rpn_->loss(out.rpn, targets, images);
  add_part("rpn_class", rpn.classes, options_.class_weight);
  add_part("rpn_bbox", rpn.boxes, options_.rpn_bbox_weight);
  for (size_t t = 0; t < out.stages.size(); ++t) {
    const RcnnStage& stage = options_.stages[t];
    const std::string number = t + 1 < out.stages.size() ? fmt::format("_{}", t) : "";
    const StageLoss own = stage_loss(out.stages[t], targets, images, stage.coder, options_.box_loss);
    add_part("class" + number, own.classes, stage.weight * options_.class_weight);
    add_part("bbox" + number, own.boxes, stage.weight * options_.bbox_weight);
    if (!mask_heads_.empty()) add_part("mask" + number, own.masks, stage.weight);
  }
  Tensor parts;
  result.total = weighted_sum(sums, terms, parts);
  for (size_t i = 0; i < names.size(); ++i)
    result.parts.emplace_back(names[i], parts.select(0, static_cast<int64_t>(i)));
  return result;
}

std::vector<std::vector<ImageDetection>> Rcnn::postprocess(const DetectorOutput& output,
                                                           const std::vector<Target>& targets,
                                                           const PostprocessOptions& options) const {
  const RcnnOutput& out = rcnn_output(output);
  SACCADE_CHECK(out.found.scores.defined(), "[rcnn] detections of an output that was made with targets");
  return detections_of_images(out.found, out.sizes, targets, options_.detections, options);
}

std::vector<std::pair<std::string, Var>> RcnnOutput::results() const {
  SACCADE_CHECK(found.scores.defined(), "[rcnn] results of an output that was made with targets");
  const auto width = static_cast<float>(canvas.width), height = static_cast<float>(canvas.height);
  const Var whole(Tensor::from<float>({4}, std::vector{width, height, width, height}, found.boxes.device()));
  std::vector<std::pair<std::string, Var>> all{
      {"scores", clamp(found.scores, 0, 1)}, {"boxes", div(found.boxes, whole)}, {"labels", found.labels}};
  if (found.masks.defined()) all.emplace_back("masks", found.masks);
  return all;
}

}  // namespace saccade
