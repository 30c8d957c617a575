#include "models/rcnn/rcnn.h"

#include <algorithm>

#include "core/runtime/host_copy.h"
#include "core/runtime/packed_upload.h"
#include "layers/module_scope.h"
#include "models/rcnn/losses.h"
#include "models/rcnn/regions.h"

namespace saccade {
namespace {

const RcnnOutput& rcnn_output(const DetectorOutput& output) {
  const auto* own = dynamic_cast<const RcnnOutput*>(&output);
  SACCADE_CHECK(own != nullptr, "[detector] the output of a detector of another kind");
  return *own;
}

// The image of each of `count` rows an image, i64 [N * count].
Tensor images_of_rows(int64_t N, int64_t count, Device device) {
  std::vector<int64_t> images;
  for (int64_t n = 0; n < N; ++n) images.insert(images.end(), static_cast<size_t>(count), n);
  return Tensor::from<int64_t>({N * count}, images, device);
}

// `count` rounded up to an eighth of `all`: libraries prepare themselves for every size anew.
int64_t fixed_count(int64_t count, int64_t all) { return round_up(count, std::max<int64_t>(all / 8, 8)); }

// The values, followed by so many others that there are `count`.
template <class T>
std::vector<T> filled(std::vector<T> values, int64_t count, T other) {
  values.resize(static_cast<size_t>(count), other);
  return values;
}

// The levels that regions are cut out of: all but the coarsest.
Vars region_levels(const Vars& levels) { return {levels.begin(), levels.end() - 1}; }

}  // namespace

Rcnn::Rcnn(const RcnnOptions& options, std::shared_ptr<Backbone> backbone)
    : options_(options), backbone_(child("backbone", std::move(backbone))) {
  const int64_t C = options.fpn.channels;
  neck_ = make_child<Fpn>("neck", backbone_->channels(), options.fpn);
  rpn_ = make_child<Rpn>("rpn_head", C, options.rpn);
  box_head_ = make_child<BoxHead>("roi_head.bbox_head", C, options.box_regions.size, options.head_dim,
                                  options.classes, options.background_first);
  if (options.masks)
    mask_head_ = make_child<MaskHead>("roi_head.mask_head", C, options.mask_head, options.classes);
}

Vars Rcnn::pyramid(const DetectorInput& input) const {
  SACCADE_CHECK(input.images.rank() == 4 && input.images.dim(3) == 3,
                "[detector] images of shape {}, expected [N, H, W, 3]", input.images.shape().to_string());
  Vars levels = neck_->forward(backbone_->forward(fill_reach(input.images)));
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
  ModuleScope scope(*this);
  auto output = std::make_shared<RcnnOutput>();
  const int64_t N = input.images.dim(0);
  output->canvas = {input.images.dim(1), input.images.dim(2)};
  output->sizes = input.sizes;
  if (input.sizes.empty()) output->sizes.assign(static_cast<size_t>(N), output->canvas);
  const Vars levels = pyramid(input);
  output->rpn = rpn_->forward(levels);
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

void Rcnn::learn(const Vars& levels, const ProposedRegions& proposals, const std::vector<Target>& targets,
                 RcnnOutput& output) const {
  const HostCopy boxes(proposals.boxes.value()), scores(proposals.scores.value());
  const float* best = scores.data<float>();  // the later copy, so that the host waits once
  output.samples = sample_rois(boxes.data<float>(), best, proposals.scores.dim(1), targets, options_.classes,
                               options_.sampling, "rcnn.0");
  const RoiSamples& s = output.samples;
  const int64_t all = std::ssize(targets) * options_.sampling.sampler.count;
  const int64_t R = fixed_count(s.count(), all), P = fixed_count(std::ssize(s.objects), all);
  // What fills the tables is cut out of no image, so it is 0 and counts for nothing.
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
  output.regions = box_head_->forward(cut_regions(levels, t[0], t[1], options_.box_regions));
  if (mask_head_ && P > 0)
    output.mask_logits = mask_head_->forward(cut_regions(levels, t[2], t[3], options_.mask_regions), t[4]);
}

void Rcnn::find(const Vars& levels, const ProposedRegions& proposals, const Tensor& limits,
                RcnnOutput& output) const {
  const int64_t N = proposals.scores.dim(0), P = proposals.scores.dim(1);
  const Device device = levels[0].device();
  const Var regions = cut_regions(levels, reshape(proposals.boxes, {N * P, 4}).value(),
                                  images_of_rows(N, P, device), options_.box_regions);
  output.found = best_detections(proposals, box_head_->forward(regions), limits, options_.detections);
  if (!mask_head_) return;
  const int64_t D = output.found.scores.dim(1);
  const Var inside = cut_regions(levels, reshape(output.found.boxes, {N * D, 4}).value(),
                                 images_of_rows(N, D, device), options_.mask_regions);
  const Var maps = mask_head_->forward(inside, whole_numbers(reshape(output.found.labels, {1, N * D})));
  output.found.masks = reshape(maps, {N, D, maps.dim(1), maps.dim(2)});
}

DetectionLoss Rcnn::loss(const DetectorOutput& output, const std::vector<Target>& targets,
                         const StepImages& step) const {
  const RcnnOutput& out = rcnn_output(output);
  SACCADE_CHECK(out.regions.logits.defined(), "[rcnn] a loss of an output that was made without targets");
  const StepImages images = step.empty() ? StepImages(targets) : step;
  const RpnLoss rpn = rpn_->loss(out.rpn, targets, images);
  const RoiSamples& s = out.samples;
  const int64_t R = out.regions.logits.dim(0), P = std::ssize(s.objects);
  std::vector<int64_t> rows;
  std::vector<float> deltas, weights;
  for (size_t i = 0; i < s.objects.size(); ++i) {
    const auto roi = static_cast<size_t>(s.objects[i].roi);
    rows.push_back(s.objects[i].roi * options_.classes + s.labels[roi]);
    weights.push_back(s.weights[roi]);
    const auto moved =
        options_.detections.coder.encode(s.boxes.data() + 4 * roi, s.object_boxes.data() + 4 * i);
    deltas.insert(deltas.end(), moved.begin(), moved.end());
  }
  PackedUpload upload;
  upload.add(Shape{R}, filled(s.labels, R, options_.classes));
  upload.add(Shape{R}, filled(s.weights, R, 0.0f));
  upload.add(Shape{P}, rows);
  upload.add(Shape{P, 4}, deltas);
  upload.add(Shape{P}, weights);
  const bool masks = out.mask_logits.defined();
  if (masks) {
    const int64_t maps = out.mask_logits.dim(0), side = out.mask_logits.dim(1);
    std::vector<int64_t> pixels;
    for (float set : mask_targets(s, targets, side)) pixels.push_back(set > 0 ? 0 : -1);
    upload.add(Shape{maps, side * side}, filled(pixels, maps * side * side, int64_t{-1}));
    upload.add(Shape{maps}, filled(s.mask_weights, maps, 0.0f));
  }
  const std::vector<Tensor> t = upload.upload(out.regions.logits.device());
  const double part = 1 / static_cast<double>(std::max<int64_t>(images.images(), 1));
  const Var own = index_select(reshape(out.regions.deltas, {R * options_.classes, 4}), t[2]);

  DetectionLoss result;
  Vars sums;
  std::vector<WeightedTerm> terms;
  std::vector<std::string> names;
  auto add_part = [&](const char* name, const Var& sum, double weight) {
    terms.push_back({sums.size(), 0, weight});
    sums.push_back(reshape(sum, {1}));
    names.emplace_back(name);
  };
  add_part("rpn_class", rpn.classes, options_.class_weight);
  add_part("rpn_bbox", rpn.boxes, options_.bbox_weight);
  add_part("class", weighted_cross_entropy(out.regions.logits, t[0], t[1], part), options_.class_weight);
  add_part("bbox", weighted_l1(own, t[3], t[4], part), options_.bbox_weight);
  if (mask_head_) {
    Var mask(Tensor::zeros({}, DType::kF32, out.regions.logits.device()));
    if (masks) {
      const int64_t maps = t[5].dim(0), pixels = t[5].dim(1);
      const double with_objects = static_cast<double>(std::max<int64_t>(images.matched(1), 1));
      mask = binary_cross_entropy(reshape(out.mask_logits, {maps, pixels, 1}), t[5], t[6],
                                  1 / (with_objects * static_cast<double>(pixels)));
    }
    add_part("mask", mask, 1);
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
  if (found.masks.defined()) all.emplace_back("masks", sigmoid(found.masks));
  return all;
}

}  // namespace saccade
