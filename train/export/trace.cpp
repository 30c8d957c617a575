#include "train/export/trace.h"

#include <cstring>
#include <optional>
#include <type_traits>

#include "core/files/checksum.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

uint64_t checksum_of(const Tensor& t) {
  const Tensor x = t.contiguous();
  return checksum(x.raw(), x.bytes());
}

class Tracer final : public OpObserver {
 public:
  explicit Tracer(const Tensor& images) { add(images, true, false); }
  void observe(const Op& op) override { record(op); }
  void observe_kernel(const Op& op) override { record(op); }

  Trace finish(const std::vector<Tensor>& outputs) {
    for (const Tensor& t : outputs) trace_.outputs.push_back(value_of(t));
    return std::move(trace_);
  }

 private:
  // The part of a storage that is a value. The weak pointer tells a storage from a later one at its address.
  struct View {
    std::weak_ptr<Storage> storage;
    uint32_t version;
    const void* begin;
    Shape shape, strides;
    DType dtype;
    int value;
  };

  // Returns the value of a tensor, if it is known. Only a tensor that an op has just made may be a new part
  // of a storage that depends on the images.
  std::optional<int> find(const Tensor& t, bool just_made = false) {
    auto it = views_.find(t.storage().get());
    if (it == views_.end()) return std::nullopt;
    std::vector<View>& views = it->second;
    if (views.front().storage.lock() != t.storage()) {
      views_.erase(it);
      return std::nullopt;
    }
    bool depends = false;
    for (const View& v : views) {
      if (v.version == t.storage()->version() && v.begin == t.raw() && v.shape == t.shape() &&
          v.strides == t.strides() && v.dtype == t.dtype())
        return v.value;
      depends |= trace_.values[static_cast<size_t>(v.value)].depends;
    }
    SACCADE_CHECK(just_made || !depends,
                  "[export] a tensor {} is part of an op's output, but no op took that part",
                  t.shape().to_string());
    return std::nullopt;
  }

  int add(const Tensor& t, bool depends, bool made_by_op) {
    const int id = static_cast<int>(trace_.values.size());
    trace_.values.push_back({t.shape(),
                             t.dtype(),
                             depends,
                             made_by_op,
                             depends ? Tensor() : t,
                             depends ? 0 : checksum_of(t),
                             {}});
    views_[t.storage().get()].push_back(
        {t.storage(), t.storage()->version(), t.raw(), t.shape(), t.strides(), t.dtype(), id});
    return id;
  }

  int value_of(const Tensor& t) {
    if (!t.defined()) return -1;
    const std::optional<int> known = find(t);
    return known ? *known : add(t, false, false);
  }

  void record(const Op& op) {
    TracedOp traced{.name = std::string(op.name), .module = op.module, .attributes = op.attributes};
    bool depends = false;
    auto read = [&](const Tensor& t) {
      const int id = value_of(t);
      depends |= id >= 0 && trace_.values[static_cast<size_t>(id)].depends;
      return id;
    };
    for (const Tensor& t : op.inputs) traced.inputs.push_back(read(t));
    for (const auto& [name, value] : op.attributes.all())
      if (const Tensor* t = std::get_if<Tensor>(&value)) traced.tensors.emplace_back(name, read(*t));
    // An output that shares everything with an input is that input.
    if (find(op.output, true)) return;
    traced.output = add(op.output, depends, true);
    trace_.ops.push_back(std::move(traced));
  }

  Trace trace_;
  std::unordered_map<const Storage*, std::vector<View>> views_;
};

Trace trace_once(const TracedRun& run, const Tensor& images) {
  Tracer tracer(images);
  ExecutionScope scope;
  execution().grad_enabled = false;
  execution().observer = &tracer;
  return tracer.finish(run(images));
}

// Keeps only the ops that the outputs need.
void drop_unused(Trace& trace) {
  std::vector<bool> needed(trace.values.size(), false);
  auto need = [&](int id) {
    if (id >= 0) needed[static_cast<size_t>(id)] = true;
  };
  for (int id : trace.outputs) need(id);
  std::vector<TracedOp> kept;
  for (auto op = trace.ops.rbegin(); op != trace.ops.rend(); ++op) {
    if (!needed[static_cast<size_t>(op->output)]) continue;
    for (int id : op->inputs) need(id);
    for (const auto& [name, id] : op->tensors) need(id);
    kept.push_back(std::move(*op));
  }
  trace.ops.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.dtype() == y.dtype() && x.shape() == y.shape() && std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
}

// Returns one image's part along an axis, if those of all images are the same.
std::optional<Tensor> part_of_each(const Tensor& t, int axis, int64_t images) {
  if (t.dim(axis) % images != 0) return std::nullopt;
  const int64_t each = t.dim(axis) / images;
  const Tensor part = t.slice(axis, 0, each);
  for (int64_t i = 1; i < images; ++i)
    if (!same_bytes(part, t.slice(axis, i * each, (i + 1) * each))) return std::nullopt;
  return part;
}

// Whether a, for `images`, and b, for twice as many, repeat the same for every image along growing axes.
bool repeats(Tensor a, Tensor b, const std::vector<bool>& grows, int64_t images) {
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (!grows[static_cast<size_t>(axis)]) continue;
    const std::optional<Tensor> x = part_of_each(a, axis, images), y = part_of_each(b, axis, 2 * images);
    if (!x || !y) return false;
    a = *x;
    b = *y;
  }
  return same_bytes(a, b);
}

bool same_attribute(const OpAttributes::Value& a, const OpAttributes::Value& b) {
  return a.index() == b.index() && std::visit(
                                       [&](const auto& x) {
                                         using T = std::decay_t<decltype(x)>;
                                         if constexpr (std::is_same_v<T, Tensor>)
                                           return true;  // compared as values
                                         else
                                           return x == std::get<T>(b);
                                       },
                                       a);
}

void compare_attributes(const TracedOp& x, const TracedOp& y) {
  const auto &a = x.attributes.all(), &b = y.attributes.all();
  SACCADE_CHECK(a.size() == b.size(), "[export] the attributes of op [{}] differ from image to image",
                x.name);
  for (size_t i = 0; i < a.size(); ++i)
    SACCADE_CHECK(
        a[i].first == b[i].first && same_attribute(a[i].second, b[i].second),
        "[export] the attribute \"{}\" of op [{}] depends on the images or on their number, and would "
        "be written as a constant",
        a[i].first, x.name);
}

// Finds the axes of the values that are twice as long in the run with twice as many images.
void compare_value(TracedValue& a, const TracedValue& b, int64_t images, bool more, const TracedOp& reader) {
  SACCADE_CHECK(a.shape.rank() == b.shape.rank() && a.dtype == b.dtype && a.depends == b.depends &&
                    a.made_by_op == b.made_by_op,
                "[export] the kind of what [{}] reads differs from image to image", reader.name);
  if (!a.grows.empty()) return;  // known from an earlier op
  for (int axis = 0; axis < a.shape.rank(); ++axis) {
    const bool same = a.shape[axis] == b.shape[axis], twice = more && b.shape[axis] == 2 * a.shape[axis];
    SACCADE_CHECK(same || twice, "[export] {} and {}: the shape of what [{}] reads depends on the images",
                  a.shape.to_string(), b.shape.to_string(), reader.name);
    a.grows.push_back(!same);
  }
  if (a.depends) return;
  SACCADE_CHECK(checksum_of(a.constant) == a.checksum && checksum_of(b.constant) == b.checksum,
                "[export] a tensor {} that [{}] reads is overwritten afterwards, so it is no constant",
                a.shape.to_string(), reader.name);
  if (a.made_by_op) return;
  const bool same = a.shape == b.shape && a.checksum == b.checksum;
  SACCADE_CHECK(same || repeats(a.constant, b.constant, a.grows, images),
                "[export] a tensor {} that [{}] reads depends on the images, but no op made it",
                a.shape.to_string(), reader.name);
}

void compare(Trace& a, const Trace& b, bool more) {
  SACCADE_CHECK(a.ops.size() == b.ops.size() && a.outputs == b.outputs,
                "[export] the model runs {} ops for one image and {} for another, expected the same",
                a.ops.size(), b.ops.size());
  for (size_t i = 0; i < a.ops.size(); ++i) {
    const TracedOp &x = a.ops[i], &y = b.ops[i];
    SACCADE_CHECK(x.name == y.name && x.inputs == y.inputs && x.tensors == y.tensors && x.output == y.output,
                  "[export] op {} is [{}] for one image and [{}] for another, expected the same", i, x.name,
                  y.name);
    compare_attributes(x, y);
    auto check = [&](int id) {
      if (id >= 0)
        compare_value(a.values[static_cast<size_t>(id)], b.values[static_cast<size_t>(id)], a.batch, more, x);
    };
    for (int id : x.inputs) check(id);
    for (const auto& [name, id] : x.tensors) check(id);
    check(x.output);
  }
}

}  // namespace

Trace trace_model(const TracedRun& run, const Tensor& images, const Tensor& others) {
  Trace trace = trace_once(run, images), second = trace_once(run, others);
  trace.batch = images.dim(0);
  drop_unused(trace);
  drop_unused(second);
  compare(trace, second, images.dim(0) != others.dim(0));
  for (int id : trace.outputs)
    SACCADE_CHECK(id >= 0 && trace.values[static_cast<size_t>(id)].depends,
                  "[export] an output of the model does not depend on the images");
  return trace;
}

}  // namespace saccade
