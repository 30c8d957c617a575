// Ops that move elements, and sums and means.
#include <algorithm>
#include <array>

#include "train/export/lowering.h"

namespace saccade {
namespace {

// The axes of [N, H, W, C] within [N, C, H, W].
constexpr std::array<int64_t, 4> kInChannelsFirst{0, 2, 3, 1};

SACCADE_LOWERING(reshape) {
  const TracedValue& to = l.result_traced();
  std::vector<int64_t> sizes(to.shape.begin(), to.shape.end());
  if (std::ranges::count(to.grows, true) > 1) l.refuse("two axes grow with the batch");
  for (size_t axis = 0; axis < to.grows.size(); ++axis)
    if (to.grows[axis]) sizes[axis] = -1;
  l.result(l.reshape(l.input(0), sizes));
}

SACCADE_LOWERING(permute) {
  std::vector<int64_t> axes;
  for (int64_t axis : l.integers("axes")) axes.push_back(l.shape(0).axis(static_cast<int>(axis)));
  l.result(l.transpose(l.input(0), axes));
}

SACCADE_LOWERING(slice) {
  const int axis = l.shape(0).axis(static_cast<int>(l.integer("axis")));
  const int64_t begin = l.integer("begin"), end = l.integer("end");
  const std::vector<bool>& grows = l.traced(0).grows;
  if (!grows.empty() && grows[static_cast<size_t>(axis)]) l.refuse("a part of the batch cannot be exported");
  if (l.has_channels_first(0))
    l.result_channels_first(
        l.slice(l.channels_first(0), kInChannelsFirst[static_cast<size_t>(axis)], begin, end));
  else
    l.result(l.slice(l.input(0), axis, begin, end));
}

SACCADE_LOWERING(expand) { l.result(l.node("Expand", {l.input(0), l.shape_of(l.result_traced())})); }

SACCADE_LOWERING(concat) {
  int64_t axis = l.result_shape().axis(static_cast<int>(l.integer("axis")));
  bool first = true;
  for (size_t i = 0; i < l.inputs(); ++i) first = first && l.has_channels_first(i);
  std::vector<std::string> in;
  for (size_t i = 0; i < l.inputs(); ++i) in.push_back(first ? l.channels_first(i) : l.input(i));
  if (!first) return l.result(l.node("Concat", in, {{"axis", axis}}));
  l.result_channels_first(l.node("Concat", in, {{"axis", kInChannelsFirst[static_cast<size_t>(axis)]}}));
}

// x [N, S, C], indices [N, K] -> [N, K, C]
SACCADE_LOWERING(gather) {
  const std::string rows = l.node("Unsqueeze", {l.tensor("indices"), l.graph().ints({2}, "axes")});
  const std::string all = l.node("Expand", {rows, l.graph().ints({1, 1, l.shape(0)[2]})});
  l.result(l.node("GatherElements", {l.input(0), all}, {{"axis", 1}}));
}

std::vector<int64_t> reduced_axes(const Lowering& l) {
  std::vector<int64_t> axes;
  const int rank = l.shape(0).rank();
  if (l.integer("all"))
    for (int a = 0; a < rank; ++a) axes.push_back(a);
  for (int64_t a : l.integers("axes")) axes.push_back(l.shape(0).axis(static_cast<int>(a)));
  std::ranges::sort(axes);
  return axes;
}

SACCADE_LOWERING(mean, true) {
  std::vector<int64_t> axes = reduced_axes(l);
  // Whether this is the mean over the cells of a map.
  const bool cells = l.has_channels_first(0) && axes == std::vector<int64_t>{1, 2} && !l.integer("keep_dims");
  if (cells) axes = {2, 3};
  l.result(l.node("ReduceMean", {cells ? l.channels_first(0) : l.input(0)},
                  {{"axes", axes}, {"keepdims", l.integer("keep_dims")}}));
}

SACCADE_LOWERING(sum, true) {
  l.result(l.node("ReduceSum", {l.input(0), l.graph().ints(reduced_axes(l), "axes")},
                  {{"keepdims", l.integer("keep_dims")}}));
}

}  // namespace
}  // namespace saccade
