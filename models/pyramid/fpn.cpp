#include "models/pyramid/fpn.h"

#include <fmt/format.h>

namespace saccade {
namespace {

// Upsamples a map of half the size of `like`, rounded up, by nearest neighbours.
Var upsample(const Var& x, const Var& like) {
  const int64_t N = x.dim(0), H = x.dim(1), W = x.dim(2), C = x.dim(3);
  if (H != (like.dim(1) + 1) / 2 || W != (like.dim(2) + 1) / 2)
    fail_input("model.backbone: a map of {} x {} cells above one of {} x {}, expected half its size", H, W,
               like.dim(1), like.dim(2));
  const Var wide = reshape(expand(reshape(x, {N, H, 1, W, 1, C}), {N, H, 2, W, 2, C}), {N, 2 * H, 2 * W, C});
  return slice(slice(wide, 1, 0, like.dim(1)), 2, 0, like.dim(2));
}

}  // namespace

Fpn::Fpn(const std::vector<int64_t>& in, const FpnOptions& options) : options_(options) {
  const Conv2dInit init{.weight = init::xavier_uniform(), .bias_values = init::constant(0)};
  const int64_t C = options.channels;
  auto out = [&](int64_t from, const Conv2dOptions& conv) {
    out_.push_back(make_child<Conv2d>(fmt::format("fpn_convs.{}.conv", out_.size()), from, C, 3, conv, init));
  };
  for (size_t l = 0; l < in.size(); ++l)
    lateral_.push_back(
        make_child<Conv2d>(fmt::format("lateral_convs.{}.conv", l), in[l], C, 1, Conv2dOptions{}, init));
  for (size_t l = 0; l < in.size(); ++l) out(C, {.padding = 1});
  if (options.extra == FpnOptions::Extra::kMaxPool) return;
  for (int64_t i = 0; i < options.extra_levels; ++i)
    out(i == 0 && options.extra == FpnOptions::Extra::kConvOnInput ? in.back() : C,
        {.stride = 2, .padding = 1});
}

Vars Fpn::forward(const Vars& maps) const {
  SACCADE_CHECK(maps.size() == lateral_.size(), "[fpn] {} maps, expected {}", maps.size(), lateral_.size());
  Vars inner(maps.size()), levels(maps.size());
  for (size_t l = maps.size(); l-- > 0;) {
    inner[l] = lateral_[l](maps[l]);
    if (l + 1 < maps.size()) inner[l] = add(inner[l], upsample(inner[l + 1], inner[l]));
  }
  for (size_t l = 0; l < maps.size(); ++l) levels[l] = out_[l](inner[l]);
  for (int64_t i = 0; i < options_.extra_levels; ++i) {
    if (options_.extra == FpnOptions::Extra::kMaxPool) {
      levels.push_back(max_pool2d(levels.back(), 1, 2, 0));
      continue;
    }
    Var below = i == 0 && options_.extra == FpnOptions::Extra::kConvOnInput ? maps.back() : levels.back();
    if (i > 0 && options_.extra_relu) below = relu(below);
    levels.push_back(out_[maps.size() + static_cast<size_t>(i)](below));
  }
  return levels;
}

}  // namespace saccade
