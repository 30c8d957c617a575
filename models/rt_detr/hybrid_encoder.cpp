#include "models/rt_detr/hybrid_encoder.h"

#include <cmath>

#include "models/common/token_maps.h"

namespace saccade {
namespace {

constexpr int64_t kRepVggBlocks = 3;

// Returns the first `size` rows or columns, repeating the last one if one is missing.
Var fit_axis(const Var& x, int axis, int64_t size) {
  const int64_t have = x.dim(axis);
  if (have < size) return concat({x, slice(x, axis, have - 1, have)}, axis);
  return have > size ? slice(x, axis, 0, size) : x;
}

// Backbones round odd sizes up or down when halving: this crops or extends a map to the size of `like`.
Var fit(const Var& x, const Var& like) { return fit_axis(fit_axis(x, 1, like.dim(1)), 2, like.dim(2)); }

// Upsamples a map by two with nearest neighbours.
Var upsample_twice(const Var& x, const Var& like) {
  const int64_t N = x.dim(0), H = x.dim(1), W = x.dim(2), C = x.dim(3);
  Var wide = expand(reshape(x, {N, H, 1, W, 1, C}), {N, H, 2, W, 2, C});
  return fit(reshape(wide, {N, 2 * H, 2 * W, C}), like);
}

// D-FINE's RepNCSPELAN4: of the two halves of a 1x1 convolution, the second goes twice through a CSP layer
// and a 3x3 convolution; all four results are concatenated.
class RepNcspElan : public FusionBlock {
 public:
  RepNcspElan(int64_t in, int64_t out, int64_t hidden, int64_t blocks) {
    const ConvNormOptions point{.activation = Activation::kSilu},
        three{.kernel = 3, .activation = Activation::kSilu};
    cv1_ = make_child<ConvNorm>("cv1", in, 2 * out, point);
    csp2_ = make_child<CspRepLayer>("cv2.0", out, hidden, hidden, blocks);
    conv2_ = make_child<ConvNorm>("cv2.1", hidden, hidden, three);
    csp3_ = make_child<CspRepLayer>("cv3.0", hidden, hidden, hidden, blocks);
    conv3_ = make_child<ConvNorm>("cv3.1", hidden, hidden, three);
    cv4_ = make_child<ConvNorm>("cv4", 2 * (out + hidden), out, point);
  }
  Var forward(const Var& x) override {
    const Var both = cv1_(x);
    const int64_t half = both.dim(-1) / 2;
    const Var second = conv2_(csp2_(slice(both, -1, half, 2 * half)));
    return cv4_(concat({both, second, conv3_(csp3_(second))}, -1));
  }
  std::string type_name() const override { return "RepNCSPELAN4"; }

 private:
  Child<ConvNorm> cv1_, conv2_, conv3_, cv4_;
  Child<CspRepLayer> csp2_, csp3_;
};

}  // namespace

HybridEncoderOptions read_hybrid_encoder(const Args& section, const TransformerOptions& decoder) {
  HybridEncoderOptions encoder{.dim = section.get_int("dim"),
                               .expansion = section.get_float("expansion"),
                               .transposed_position = section.get_bool("transposed_position"),
                               .attention = decoder};
  if (encoder.dim % decoder.heads != 0 || encoder.dim % 4 != 0)
    fail_input("{}.dim: {} must be a multiple of 4 and of heads ({})", section.path(), encoder.dim,
               decoder.heads);
  if (static_cast<double>(encoder.dim) * encoder.expansion < 1)
    fail_input("{}.expansion: {} of {} channels is less than one channel, expected at least {:.4g}",
               section.path(), encoder.expansion, encoder.dim, 1 / static_cast<double>(encoder.dim));
  encoder.attention.levels = 1;
  encoder.attention.ffn_dim = section.get_int("ffn_dim");
  encoder.attention.activation = Activation::kGelu;
  encoder.attention.ffn_init = {};
  section.finish("the hybrid encoder");
  return encoder;
}

Tensor hybrid_position_encoding(MapSize map, int64_t channels, bool transposed, Device device) {
  SACCADE_CHECK(channels % 4 == 0, "[hybrid_position_encoding] {} channels, expected a multiple of 4",
                channels);
  const int64_t quarter = channels / 4;
  Tensor code = Tensor::empty({1, map.cells(), channels});
  float* p = code.data<float>();
  const int64_t columns = transposed ? map.height : map.width;
  for (int64_t t = 0; t < map.cells(); ++t) {
    for (int64_t coordinate : {t / columns, t % columns}) {
      for (int64_t i = 0; i < quarter; ++i) {
        const double angle = static_cast<double>(coordinate) /
                             std::pow(1e4, static_cast<double>(i) / static_cast<double>(quarter));
        p[i] = static_cast<float>(std::sin(angle));
        p[quarter + i] = static_cast<float>(std::cos(angle));
      }
      p += 2 * quarter;
    }
  }
  return code.to(device);
}

int64_t csp_channels(int64_t dim, double expansion) {
  return static_cast<int64_t>(std::floor(static_cast<double>(dim) * expansion + 1e-9));
}

std::shared_ptr<FusionBlock> HybridEncoder::make_fusion() const {
  const int64_t dim = options_.dim, hidden = csp_channels(dim, options_.expansion);
  if (options_.elan_blocks == 0) return std::make_shared<CspRepLayer>(2 * dim, dim, hidden, kRepVggBlocks);
  return std::make_shared<RepNcspElan>(2 * dim, dim, hidden / 2, options_.elan_blocks);
}

HybridEncoder::HybridEncoder(const std::vector<int64_t>& channels, const HybridEncoderOptions& options)
    : options_(options) {
  const int64_t dim = options.dim, maps = std::ssize(channels);
  const bool elan = options.elan_blocks > 0;
  const ConvNormOptions point, point_silu{.activation = Activation::kSilu};
  const ConvNormOptions strided{.kernel = 3, .stride = 2, .activation = Activation::kSilu},
      depthwise{.kernel = 3, .stride = 2, .groups = dim};
  auto conv = [&](const std::string& name, const ConvNormOptions& of) {
    return make_child<ConvNorm>(name, dim, dim, of);
  };
  for (int64_t i = 0; i < maps; ++i)
    input_proj_.push_back(
        make_child<ConvNorm>(fmt::format("input_proj.{}", i), channels[static_cast<size_t>(i)], dim));
  options_.attention.dim = dim;
  encoder_ = make_child<TransformerEncoder>("encoder.0", options_.attention, "multi_head_attention");
  for (int64_t i = 0; i + 1 < maps; ++i) {
    lateral_convs_.push_back(conv(fmt::format("lateral_convs.{}", i), elan ? point : point_silu));
    fpn_blocks_.push_back(child(fmt::format("fpn_blocks.{}", i), make_fusion()));
  }
  for (int64_t i = 0; i + 1 < maps; ++i) {
    const std::string name = fmt::format("downsample_convs.{}", i);
    if (elan)
      downsample_convs_.push_back({conv(name + ".0.cv1", point), conv(name + ".0.cv2", depthwise)});
    else
      downsample_convs_.push_back({conv(name, strided)});
    pan_blocks_.push_back(child(fmt::format("pan_blocks.{}", i), make_fusion()));
  }
}

Var HybridEncoder::attend(const Var& map, const DetectorInput& input) {
  const MapSize size{map.dim(1), map.dim(2)};
  const Device device = map.device();
  CacheKey key;
  key.add(size.height, size.width, static_cast<int>(device));
  const Tensors position = constants_.get(key, [&] {
    return Tensors{hybrid_position_encoding(size, options_.dim, options_.transposed_position, device)};
  });
  Var tokens = reshape(map, {map.dim(0), size.cells(), options_.dim});
  tokens = encoder_(tokens, Var(position[0]), make_token_maps({size}, input, &constants_));
  return reshape(tokens, map.shape());
}

std::vector<Var> HybridEncoder::forward(const std::vector<Var>& features, const DetectorInput& input) {
  std::vector<Var> maps;
  for (size_t i = 0; i < features.size(); ++i) maps.push_back(input_proj_[i](features[i]));
  maps.back() = attend(maps.back(), input);
  // Top-down: the output of the lateral convolution replaces the upper map.
  for (size_t i = 0; i + 1 < maps.size(); ++i) {
    Var &upper = maps[maps.size() - 1 - i], &lower = maps[maps.size() - 2 - i];
    upper = lateral_convs_[i](upper);
    lower = fpn_blocks_[i](concat({upsample_twice(upper, lower), lower}, -1));
  }
  for (size_t i = 0; i + 1 < maps.size(); ++i) {
    Var down = maps[i];
    for (auto& conv : downsample_convs_[i]) down = conv(down);
    maps[i + 1] = pan_blocks_[i](concat({fit(down, maps[i + 1]), maps[i + 1]}, -1));
  }
  return maps;
}

}  // namespace saccade
