#include "train/export/lowering.h"

#include <algorithm>
#include <numbers>

namespace saccade {

std::string Lowering::activate(Activation activation, const std::string& x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return node("Relu", {x});
    case Activation::kSilu:
      return node("Mul", {x, node("Sigmoid", {x})});
    case Activation::kGelu: {  // the form that runtimes recognise and fuse
      const std::string erf = node("Erf", {node("Div", {x, graph().scalar(std::numbers::sqrt2)})});
      return node("Mul", {node("Mul", {x, node("Add", {erf, graph().scalar(1)})}), graph().scalar(0.5)});
    }
  }
  refuse("an unknown activation");
}

Tensor LoweredValues::constant(int id) const {
  const TracedValue& value = at(id);
  Tensor t = value.constant;
  for (int axis = 0; axis < t.rank(); ++axis) {
    if (value.grows.empty() || !value.grows[static_cast<size_t>(axis)]) continue;
    SACCADE_CHECK(
        t.dim(axis) == trace_.batch,
        "[export] a constant {} for {} images cannot be repeated for a batch of any size; export for "
        "a fixed batch size",
        t.shape().to_string(), trace_.batch);
    t = t.slice(axis, 0, 1);
  }
  return t;
}

std::string LoweredValues::name(int id, bool whole_batch, std::string_view hint) {
  Names& names = names_[static_cast<size_t>(id)];
  const TracedValue& value = at(id);
  if (value.depends) {
    if (names.plain.empty()) {
      SACCADE_CHECK(!names.channels_first.empty(), "[export] a value {} is read before it is made",
                    value.shape.to_string());
      names.plain =
          graph_.node("Transpose", {names.channels_first}, {{"perm", std::vector<int64_t>{0, 2, 3, 1}}});
    }
    return names.plain;
  }
  const bool grows = std::ranges::count(value.grows, true) > 0;
  if (grows && whole_batch && !names.plain.empty()) return names.plain;
  const Tensor t = constant(id);
  auto known = parameters_.find(value.constant.storage().get());
  const bool whole = known != parameters_.end() && t.bytes() == t.storage()->bytes();
  std::string one = whole ? graph_.constant(t, known->second, true) : graph_.constant(t, hint);
  if (!grows || !whole_batch) return one;
  return names.plain = graph_.node("Expand", {one, shape(value)});
}

std::string LoweredValues::channels_first(int id) {
  Names& names = names_[static_cast<size_t>(id)];
  if (names.channels_first.empty())
    names.channels_first = graph_.node("Transpose", {name(id)}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
  return names.channels_first;
}

std::string LoweredValues::batch() {
  if (batch_.empty())
    batch_ = graph_.node("Slice", {graph_.node("Shape", {"images"}), graph_.ints({0}), graph_.ints({1})});
  return batch_;
}

std::string LoweredValues::for_every_image(const Tensor& one, std::string_view hint) {
  std::string name = graph_.constant(one, hint);
  if (!free_batch() && trace_.batch == 1) return name;
  TracedValue all{.shape = one.shape(), .grows = std::vector<bool>(static_cast<size_t>(one.rank()), false)};
  all.shape[0] = trace_.batch;
  all.grows[0] = free_batch();
  return graph_.node("Expand", {name, shape(all)});
}

std::string LoweredValues::shape(const TracedValue& value) {
  std::vector<int64_t> sizes(value.shape.begin(), value.shape.end());
  std::vector<std::string> parts;
  std::vector<int64_t> run;
  auto flush = [&] {
    if (!run.empty()) parts.push_back(graph_.ints(run));
    run.clear();
  };
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (value.grows.empty() || !value.grows[axis]) {
      run.push_back(sizes[axis]);
      continue;
    }
    flush();
    const int64_t each = sizes[axis] / trace_.batch;
    parts.push_back(each == 1 ? batch() : graph_.node("Mul", {batch(), graph_.ints({each})}));
  }
  flush();
  return parts.size() == 1 ? parts[0] : graph_.node("Concat", parts, {{"axis", 0}});
}

}  // namespace saccade
