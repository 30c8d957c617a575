#include "models/dino/box_decoder.h"

#include <cmath>
#include <numbers>

#include "autograd/scope.h"
#include "layers/position_encoding.h"

namespace saccade {
namespace {

TransformerOptions with_last_norm(TransformerOptions o) {
  o.last_norm = true;
  return o;
}

// sine_box_encoding with a gradient: adds a value that is 0 but has the slope of the sines. The slope of the
// sine in channel 2i is the cosine in channel 2i + 1 times the pair's rate, that of the cosine is minus the
// sine times the rate.
Var sines_with_gradient(const Var& x, int64_t channels, const ConstantKeeper& keeper) {
  const Tensor sines = sine_box_encoding(x.value(), channels);
  const Shape full = sines.shape();
  const Tensors rates = keeper.get(CacheKey().add(x.device(), channels), [&]() -> Tensors {
    std::vector<float> all;
    for (int64_t i = 0; i < channels / 2; ++i)
      all.push_back(static_cast<float>(
          2 * std::numbers::pi *
          std::pow(kSineTemperature, -2.0 * static_cast<double>(i) / static_cast<double>(channels))));
    return {Tensor::from<float>({channels / 2, 1}, all, x.device())};
  });
  Var slopes;
  {
    NoGrad no_grad;
    const Var pairs = reshape(Var(sines), {x.value().numel(), channels / 2, 2}), rate(rates[0]);
    slopes = concat({mul(slice(pairs, 2, 1, 2), rate), neg(mul(slice(pairs, 2, 0, 1), rate))}, 2);
  }
  const Var nothing = reshape(sub(x, x.detach()), {x.value().numel(), 1});
  const Var moved = mul(nothing, reshape(slopes, {x.value().numel(), channels}));
  return add(Var(sines), reshape(moved, full));
}

}  // namespace

BoxDecoder::BoxDecoder(const TransformerOptions& o)
    : TransformerDecoder(with_last_norm(o), true), dim_(o.dim) {
  ref_point_head_ = make_child<Mlp>("ref_point_head", std::vector{2 * o.dim, o.dim, o.dim},
                                    MlpOptions{.linear = {.weight_init = init::xavier_uniform()}});
}

Var BoxDecoder::position_of(const Var& boxes, const TokenMaps& maps) const {
  Var first_level = Var(maps.valid_ratios.slice(1, 0, 1));  // [N, 1, 2]
  first_level = concat({first_level, first_level}, -1);
  const Var in_map = mul(boxes, first_level);
  auto part = [&](int64_t begin, int64_t end) { return slice(in_map, 2, begin, end); };
  const Var y_first = concat({part(1, 2), part(0, 1), part(2, 4)}, 2);
  const int64_t channels = dim_ / 2;
  const bool learns = execution().grad_enabled && boxes.requires_grad();
  return ref_point_head_(learns ? sines_with_gradient(y_first, channels, constants_)
                                : Var(sine_box_encoding(y_first.value(), channels)));
}

}  // namespace saccade
