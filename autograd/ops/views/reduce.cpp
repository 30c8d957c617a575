// Sums and means.
#include "autograd/ops.h"
#include "autograd/ops/common.h"

namespace saccade {
namespace {

template <bool kMean>
struct Reduce {
  static constexpr const char* kName = kMean ? "mean" : "sum";
  static constexpr auto macs = no_macs;
  std::vector<int> axes;
  bool all, keep_dims;
  Shape from{}, kept{};  // kept: with size 1 for the summed axes
  double scale = 1;
  void describe(OpAttributes& to) const {
    to.add("axes", std::vector<int64_t>(axes.begin(), axes.end()));
    to.add("all", int64_t{all}).add("keep_dims", int64_t{keep_dims});
  }

  Tensor forward(Context&, const Tensors& in) {
    from = in[0].shape();
    kept = from;
    if (all)
      for (int a = 0; a < from.rank(); ++a) axes.push_back(a);
    for (int a : axes) kept[a] = 1;
    Shape out;
    for (int a = 0; a < from.rank(); ++a) {
      bool summed = std::any_of(axes.begin(), axes.end(), [&](int b) { return from.axis(b) == a; });
      if (!summed || keep_dims) out.push_back(kept[a]);
    }
    if constexpr (kMean) {
      SACCADE_CHECK(from.numel() > 0 || kept.numel() == 0, "[mean] got shape {}, which has no elements",
                    from);
      scale = from.numel() > 0 ? static_cast<double>(kept.numel()) / static_cast<double>(from.numel()) : 1;
    }
    return sum_to(in[0], kept, scale).reshape(out);
  }
  Gradients backward(const Context&, const Tensor& dy) const {
    Tensor g = dy.reshape(kept);
    if (scale != 1) g = sum_to(g, kept, scale);
    return {g.expand(from)};
  }
};

template <bool kMean>
Var reduce(const Var& x, std::span<const int> axes, bool all, bool keep_dims) {
  return run_op(Reduce<kMean>{{axes.begin(), axes.end()}, all, keep_dims}, {x});
}

}  // namespace

Var sum(const Var& x) { return reduce<false>(x, {}, true, false); }
Var sum(const Var& x, std::span<const int> axes, bool keep_dims) {
  return reduce<false>(x, axes, false, keep_dims);
}
Var mean(const Var& x) { return reduce<true>(x, {}, true, false); }
Var mean(const Var& x, std::span<const int> axes, bool keep_dims) {
  return reduce<true>(x, axes, false, keep_dims);
}

}  // namespace saccade
