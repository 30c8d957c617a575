// Ops that only move elements: views share their input's storage, concat copies.
#include "autograd/ops.h"
#include "autograd/ops/common.h"
#include "core/kernels/copy/copy.h"
#include "core/kernels/elementwise/elementwise.h"

namespace saccade {
namespace {

struct Reshape {
  static constexpr const char* kName = "reshape";
  static constexpr auto macs = no_macs;
  Shape shape, from{};

  Tensor forward(Context&, const Tensors& in) {
    from = in[0].shape();
    return run(in[0], shape);
  }
  Gradients backward(const Context&, const Tensor& dy) const { return {run(dy, from)}; }
  // Strided tensors are copied once here rather than in every op that reads them.
  static Tensor run(const Tensor& t, const Shape& to) { return t.contiguous().reshape(to); }
};

struct Permute {
  static constexpr const char* kName = "permute";
  static constexpr auto macs = no_macs;
  std::vector<int> axes;
  void describe(OpAttributes& to) const { to.add("axes", std::vector<int64_t>(axes.begin(), axes.end())); }

  Tensor forward(Context&, const Tensors& in) const { return in[0].permute(axes); }
  Gradients backward(const Context&, const Tensor& dy) const {
    std::vector<int> inverse(axes.size());
    for (size_t i = 0; i < axes.size(); ++i)
      inverse[static_cast<size_t>(dy.shape().axis(axes[i]))] = static_cast<int>(i);
    return {dy.permute(inverse)};
  }
};

struct Slice {
  static constexpr const char* kName = "slice";
  static constexpr auto macs = no_macs;
  int axis;
  int64_t begin, end;
  Shape from{};
  void describe(OpAttributes& to) const { to.add("axis", int64_t{axis}).add("begin", begin).add("end", end); }

  Tensor forward(Context&, const Tensors& in) {
    from = in[0].shape();
    return in[0].slice(axis, begin, end);
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dx = ctx.new_gradient(0, from, dy.dtype(), dy.device());
    kernels::copy_into_zeros(dy, axis, begin, dx);
    return {dx};
  }
  bool add_backward(const Context&, const Tensor& dy, Tensor& sum) const {
    Tensor part = sum.slice(axis, begin, end);
    if (!part.is_contiguous() || part.dtype() != dy.dtype())
      return false;  // kernels cannot write strided results
    kernels::binary(kernels::BinaryOp::kAdd, part, dy, part);
    return true;
  }
};

struct Expand {
  static constexpr const char* kName = "expand";
  static constexpr auto macs = no_macs;
  Shape shape, from{};

  Tensor forward(Context&, const Tensors& in) {
    from = in[0].shape();
    return in[0].expand(shape);
  }
  Gradients backward(const Context&, const Tensor& dy) const { return {sum_to(dy, from)}; }
};

struct Concat {
  static constexpr const char* kName = "concat";
  static constexpr std::array kCasts{Cast::kWidest};
  static constexpr auto macs = no_macs;
  int axis;
  std::vector<int64_t> sizes{};
  void describe(OpAttributes& to) const { to.add("axis", int64_t{axis}); }

  Tensor forward(Context&, const Tensors& in) {
    Shape shape = in[0].shape();
    axis = shape.axis(axis);
    shape[axis] = 0;
    for (const Tensor& t : in) {
      Shape other = t.shape();
      SACCADE_CHECK(other.rank() == shape.rank(), "[concat] ranks differ, got {} and {}", in[0].shape(),
                    other);
      sizes.push_back(other[axis]);
      shape[axis] += other[axis];
      other[axis] = in[0].dim(axis);
      SACCADE_CHECK(other == in[0].shape(), "[concat] shapes differ outside axis {}, got {} and {}", axis,
                    in[0].shape(), t.shape());
    }
    Tensor y = Tensor::empty(shape, in[0].dtype(), in[0].device());
    kernels::join(in, axis, y);
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Gradients g(sizes.size());
    int64_t at = 0;
    for (size_t i = 0; i < sizes.size(); at += sizes[i++])
      if (ctx.needs(i)) g[i] = dy.slice(axis, at, at + sizes[i]);
    return g;
  }
};

struct MaskedFill {
  static constexpr const char* kName = "masked_fill";
  static constexpr auto macs = no_macs;
  Tensor mask;
  double value;
  void describe(OpAttributes& to) const { to.add("mask", mask).add("value", value); }

  Tensor forward(Context& ctx, const Tensors& in) const {
    SACCADE_CHECK(mask.dtype() == DType::kBool, "[masked_fill] mask dtype, got {}, expected bool",
                  mask.dtype());
    SACCADE_CHECK(broadcast_shapes(in[0].shape(), mask.shape(), kName) == in[0].shape(),
                  "[masked_fill] mask shape, got {}, expected one that broadcasts to {}", mask.shape(),
                  in[0].shape());
    ctx.save(mask);
    return run(in[0], value);
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    ctx.saved(0);  // throws if the mask has changed since
    return {run(dy, 0)};
  }
  Tensor run(const Tensor& x, double fill) const {
    Tensor y = x.empty_like();
    kernels::masked_fill(x, mask, fill, y);
    return y;
  }
};

}  // namespace

Var reshape(const Var& x, const Shape& shape) {
  if (x.shape() == shape && x.value().is_contiguous()) return x;
  return run_op(Reshape{shape}, {x});
}
Var permute(const Var& x, std::span<const int> axes) {
  return run_op(Permute{{axes.begin(), axes.end()}}, {x});
}
Var slice(const Var& x, int axis, int64_t begin, int64_t end) { return run_op(Slice{axis, begin, end}, {x}); }
Var expand(const Var& x, const Shape& shape) { return run_op(Expand{shape}, {x}); }
Var concat(const Vars& xs, int axis) {
  SACCADE_CHECK(!xs.empty(), "[concat] no inputs, expected at least one");
  return run_op(Concat{axis}, xs);
}
Var masked_fill(const Var& x, const Tensor& mask, double value) {
  return run_op(MaskedFill{mask.to(x.device()), value}, {x});
}

}  // namespace saccade
