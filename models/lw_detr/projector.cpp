#include "models/lw_detr/projector.h"

#include <numeric>

#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr double kChannelNormEps = 1e-6;
constexpr int64_t kManyChannels = 512;  // of a map, above which they are halved before it gets larger

}  // namespace

// `conv` and its norm `bn`, of either kind.
class Projector::NormedConv : public Module {
 public:
  NormedConv(int64_t in, int64_t out, int64_t kernel, const ProjectorOptions& o, int64_t stride = 1,
             Activation activation = Activation::kSilu)
      : activation_(activation) {
    if (o.batch_norm) {
      const ConvNormOptions both{
          .kernel = kernel, .stride = stride, .activation = activation, .norm_name = "bn"};
      both_ = make_child<ConvNorm>("", in, out, both);
      return;
    }
    conv_ =
        make_child<Conv2d>("conv", in, out, kernel, Conv2dOptions{.stride = stride, .padding = kernel / 2},
                           Conv2dInit{.bias = false});
    norm_ = make_child<LayerNorm>("bn", out, kChannelNormEps);
  }
  Var forward(const Var& x) const {
    if (both_) return both_(x);
    const Var y = norm_(conv_(x));
    return activation_ == Activation::kSilu ? silu(y) : relu(y);
  }

 private:
  Activation activation_;
  Child<ConvNorm> both_;
  Child<Conv2d> conv_;
  Child<LayerNorm> norm_;
};

// YOLOv8's C2f: half of the channels go through a chain of blocks, whose steps are all joined.
class Projector::Fusion : public Module {
 public:
  Fusion(int64_t in, const ProjectorOptions& o) : half_(o.dim / 2) {
    cv1_ = make_child<NormedConv>("cv1", in, 2 * half_, 1, o);
    for (int64_t b = 0; b < o.blocks; ++b)
      for (const char* name : {"cv1", "cv2"})
        chain_.push_back(make_child<NormedConv>(fmt::format("m.{}.{}", b, name), half_, half_, 3, o));
    cv2_ = make_child<NormedConv>("cv2", (2 + o.blocks) * half_, o.dim, 1, o);
  }
  Var forward(const Var& x) const {
    const Var both = cv1_(x);
    Vars steps{both};
    Var step = slice(both, 3, half_, 2 * half_);
    for (size_t i = 0; i < chain_.size(); ++i) {
      step = chain_[i](step);
      if (i % 2 == 1) steps.push_back(step);
    }
    return cv2_(concat(steps, 3));
  }
  std::string type_name() const override { return "C2f"; }

 private:
  int64_t half_;
  Child<NormedConv> cv1_, cv2_;
  std::vector<Child<NormedConv>> chain_;
};

// One map twice as fine, or twice as coarse.
class Projector::Resampled : public Module {
 public:
  Resampled(int64_t channels, bool finer, const ProjectorOptions& o) : channels_(channels) {
    if (!finer) {
      conv_ = make_child<NormedConv>("0", channels, channels, 3, o, 2, Activation::kRelu);
      return;
    }
    if (channels > kManyChannels) {
      conv_ = make_child<NormedConv>("0", channels, channels / 2, 1, o, 1, Activation::kRelu);
      channels /= 2;
    }
    channels_ = channels / 2;
    // PyTorch's default, whose fan-in is that of the weight's second axis.
    const Initializer usual = init::linear_default(4 * channels_);
    finer_ = make_child<ConvTranspose2d>(conv_ ? "1" : "0", channels, channels_, 2, usual, usual);
  }
  Var forward(const Var& x) const {
    const Var y = conv_ ? conv_(x) : x;
    return finer_ ? finer_(y) : y;
  }
  int64_t channels() const { return channels_; }

 private:
  int64_t channels_;
  Child<NormedConv> conv_;
  Child<ConvTranspose2d> finer_;
};

Projector::Projector(const std::vector<int64_t>& channels, const ProjectorOptions& o) {
  for (int64_t l = 0; l < o.levels; ++l) {
    Level level;
    int64_t joined = std::accumulate(channels.begin(), channels.end(), int64_t{0});
    if (o.levels > 1) {
      joined = 0;
      for (size_t i = 0; i < channels.size(); ++i) {
        level.resampled.push_back(
            make_child<Resampled>(fmt::format("stages_sampling.{}.{}", l, i), channels[i], l == 0, o));
        joined += level.resampled.back()->channels();
      }
    }
    level.fusion = make_child<Fusion>(fmt::format("stages.{}.0", l), joined, o);
    level.norm = make_child<LayerNorm>(fmt::format("stages.{}.1", l), o.dim, kChannelNormEps);
    levels_.push_back(std::move(level));
  }
}

Vars Projector::forward(const Vars& maps) const {
  for (const Var& map : maps)
    if (map.dim(1) != maps[0].dim(1) || map.dim(2) != maps[0].dim(2))
      fail_input(
          "model.backbone: maps of {} x {} and {} x {} cells, expected those of one size, of a vision "
          "transformer, or one map",
          maps[0].dim(1), maps[0].dim(2), map.dim(1), map.dim(2));
  Vars out;
  for (const Level& level : levels_) {
    Vars parts = maps;
    for (size_t i = 0; i < level.resampled.size(); ++i) parts[i] = level.resampled[i](maps[i]);
    out.push_back(level.norm(level.fusion(parts.size() == 1 ? parts[0] : concat(parts, 3))));
  }
  return out;
}

}  // namespace saccade
