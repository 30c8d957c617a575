// Parts shared by DAT and DAT++, with the official parameter names: stages of blocks whose attention layers
// are chosen by letters, a convolution and a norm before each stage, and a norm after each returned map.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "layers/conv2d.h"
#include "layers/norm.h"
#include "models/backbone.h"
#include "models/common/pooled_classifier.h"
#include "models/common/stages.h"

namespace saccade {

constexpr int64_t kDatPatch = 4;  // pixels per side of a token of the first stage
constexpr int64_t kDatMlpRatio = 4;
constexpr const char* kDatAttention = "dmha";

struct DatOptions {
  // One word per stage, one letter per block. D is the attention layer of the section `attention` (deformable
  // attention by default).
  std::vector<std::string> blocks;
  std::vector<int64_t> dims, heads;               // one per stage; the stem gives dims[0]
  std::vector<int64_t> groups, kernels, strides;  // of deformable attention, one per stage
  std::vector<int64_t> reductions;                // of spatial reduction, one per stage; only in DAT
  int64_t window = 7;
  int64_t image_size = 224;  // that the tables of relative positions are made for; any is accepted
  double drop_path = 0;      // of the last block; grows linearly from 0 for the first
  Args attention;
  std::vector<int64_t> outputs;  // stages whose maps forward() returns, each through its own norm
};

struct DatFamily {
  const char *type, *classifier_type;  // for summaries
  const char *letters, *meaning;       // the letters of blocks, and their meaning in words for error messages
  bool overlap;  // whether convolution windows overlap; if so, the stem has two with a GELU between
  int64_t min_window, max_window;
  const char* blocks;   // of the smallest official model,
  DatOptions defaults;  // and its other options
};

// Reads all options except the outputs; the caller finishes the section.
DatOptions read_dat(const Args& args, const DatFamily& family);
// Returns the section of the attention layer D; deformable attention gets the stage's settings unless the
// configuration gives its own.
Args deformable_section(const DatOptions& options, size_t stage, const std::string& variant);

// A convolution with a stride, `first`, and a norm, `first + 1`.norm. The windows are either 3x3 and overlap,
// or as wide as the stride.
class Downsampling : public Module {
 public:
  Downsampling(int64_t in, int64_t out, int64_t stride, bool overlap, bool bias, int64_t first = 0) {
    conv_ = make_child<Conv2d>(std::to_string(first), in, out, overlap ? 3 : stride,
                               Conv2dOptions{.stride = stride, .padding = overlap ? 1 : 0},
                               Conv2dInit{.bias = bias});
    norm_ = make_child<LayerNorm>(std::to_string(first + 1) + ".norm", out);
  }
  Var forward(const Var& x) const { return norm_(conv_(x)); }

 private:
  Child<Conv2d> conv_;
  Child<LayerNorm> norm_;
};

// Stage: a module built from the options, its number and its blocks' drop probabilities; it has a kFamily.
template <class Stage>
class DatBackbone : public Backbone {
 public:
  // classifier: the only output, the last stage's, uses the classifier's norm
  DatBackbone(const DatOptions& options, bool classifier) : options_(options) {
    const std::vector<int64_t>& dims = options.dims;
    std::vector<int64_t> depths;
    for (const std::string& word : options.blocks) depths.push_back(std::ssize(word));
    const auto rates = drop_path_rates(depths, options.drop_path);
    auto stem = [&](int64_t in, int64_t out, int64_t stride, int64_t first) {
      stem_.push_back(
          make_child<Downsampling>("patch_proj", in, out, stride, Stage::kFamily.overlap, true, first));
    };
    if (Stage::kFamily.overlap) {
      stem(3, dims[0] / 2, 2, 0);
      stem(dims[0] / 2, dims[0], 2, 3);
    } else {
      stem(3, dims[0], kDatPatch, 0);
    }
    for (size_t i = 0; i < dims.size(); ++i)
      stages_.push_back(make_child<Stage>(fmt::format("stages.{}", i), options, i, rates[i]));
    for (size_t i = 0; i + 1 < dims.size(); ++i)
      downsampling_.push_back(make_child<Downsampling>(fmt::format("down_projs.{}", i), dims[i], dims[i + 1],
                                                       2, Stage::kFamily.overlap, false));
    for (int64_t o : options.outputs)
      norms_.push_back(
          make_child<LayerNorm>(classifier ? "cls_norm.norm" : fmt::format("norms.{}.norm", o - 1),
                                dims[static_cast<size_t>(o - 1)]));
  }
  std::vector<Var> forward(const Var& images) override {
    std::vector<Var> maps;
    Var x = stem_[0](images);
    if (Stage::kFamily.overlap) x = stem_[1](gelu(x));
    for (size_t i = 0; i < static_cast<size_t>(options_.outputs.back()); ++i) {
      if (i > 0) x = downsampling_[i - 1](x);
      x = stages_[i](x);
      if (std::ranges::count(options_.outputs, static_cast<int64_t>(i) + 1))
        maps.push_back(norms_[maps.size()](x));
    }
    return maps;
  }
  std::vector<int64_t> channels() const override { return at_stages(options_.dims, options_.outputs); }
  std::string type_name() const override { return Stage::kFamily.type; }

 private:
  DatOptions options_;
  std::vector<Child<Downsampling>> stem_, downsampling_;  // downsampling_: from each stage to the next
  std::vector<Child<Stage>> stages_;
  std::vector<Child<LayerNorm>> norms_;  // one per output
};

template <class Stage>
std::shared_ptr<Backbone> build_dat(const Args& args, const std::vector<int64_t>& default_outputs) {
  DatOptions options = read_dat(args, Stage::kFamily);
  options.outputs = read_outputs(args, default_outputs, std::ssize(options.blocks));
  args.finish();
  return std::make_shared<DatBackbone<Stage>>(options, false);
}

template <class Stage>
std::shared_ptr<Classifier> build_dat_classifier(const Args& args, int64_t num_classes) {
  DatOptions options = read_dat(args, Stage::kFamily);
  args.finish();
  options.outputs = {std::ssize(options.blocks)};
  return std::make_shared<PooledClassifier>(Stage::kFamily.classifier_type,
                                            std::make_shared<DatBackbone<Stage>>(options, true), "cls_head",
                                            num_classes);
}

// Infers a stage of an official classifier from names and shapes: fills the last entries of `found` with the
// options of deformable attention if tensors that begin with `block` belong to it.
void infer_deformable(Inference& weights, const std::string& block, DatOptions& found);
// Sets the fields that were found, except empty lists, and the classes.
void set_dat(Inference& weights, const DatOptions& found);

}  // namespace saccade
