#include "core/kernels/matmul/matmul.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

// The leading axes of a matrix shape.
Shape leading(const Shape& s) {
  return Shape(std::span<const int64_t>(s.begin(), static_cast<size_t>(s.rank() - 2)));
}

Shape with_matrix(Shape lead, int64_t rows, int64_t columns) {
  lead.push_back(rows);
  lead.push_back(columns);
  return lead;
}

// [..., R, C] -> [B, R, C] with the leading axes broadcast to `lead`, or [1, R, C] if t has only one matrix.
Tensor as_batch(const Tensor& t, const Shape& lead) {
  int64_t rows = t.dim(-2), columns = t.dim(-1);
  if (leading(t.shape()).numel() == 1) return t.contiguous().reshape({1, rows, columns});
  return t.expand(with_matrix(lead, rows, columns)).contiguous().reshape({lead.numel(), rows, columns});
}

// Sums over the axes of `lead` along which t was broadcast: [B, R, C] -> t's shape. Each sum is a product
// with a row of ones.
Tensor fold_batch(Tensor grad, const Shape& lead, const Shape& target) {
  int64_t rows = target[-2], columns = target[-1];
  Shape wide = Shape::filled(lead.rank() + 2 - target.rank(), 1);
  for (int64_t d : target) wide.push_back(d);
  int64_t matrix = rows * columns;
  Shape now = lead;
  for (int axis = 0; axis < lead.rank(); ++axis) {
    if (wide[axis] == now[axis]) continue;
    int64_t outer = 1, inner = matrix;
    for (int i = 0; i < axis; ++i) outer *= now[i];
    for (int i = axis + 1; i < now.rank(); ++i) inner *= now[i];
    Tensor ones = Tensor::full({1, 1, now[axis]}, 1, grad.dtype(), grad.device());
    Tensor sum = Tensor::empty({outer, 1, inner}, grad.dtype(), grad.device());
    kernels::matmul(ones, grad.reshape({outer, now[axis], inner}), sum);
    grad = sum;
    now[axis] = 1;
  }
  return grad.reshape(target);
}

struct Matmul {
  static constexpr const char* kName = "matmul";
  static constexpr std::array kCasts{Cast::kCompute};

  static int64_t macs(const Tensors& in, const Tensor& out) { return out.numel() * in[0].dim(-1); }

  Tensor forward(Context& ctx, const Tensors& in) const {
    const Tensor &a = in[0], &b = in[1];
    Shape lead = broadcast_shapes(leading(a.shape()), leading(b.shape()), "matmul");
    ctx.save(a, b);
    Tensor c = Tensor::empty({lead.numel(), a.dim(-2), b.dim(-1)}, a.dtype(), a.device());
    kernels::matmul(as_batch(a, lead), as_batch(b, lead), c);
    return c.reshape(with_matrix(lead, a.dim(-2), b.dim(-1)));
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    const Tensor &a = ctx.saved(0), &b = ctx.saved(1);
    Shape lead = leading(dy.shape());
    Tensor dc = as_batch(dy, lead);
    return {ctx.needs(0) ? grad_of(dc, as_batch(b, lead).transpose(1, 2), lead, a) : Tensor(),
            ctx.needs(1) ? grad_of(as_batch(a, lead).transpose(1, 2), dc, lead, b) : Tensor()};
  }

  static Tensor grad_of(const Tensor& left, const Tensor& right, const Shape& lead, const Tensor& input) {
    // A sum over a broadcast batch stays in the wide dtype until it is complete.
    Tensor g =
        Tensor::empty({lead.numel(), left.dim(1), right.dim(2)}, sum_dtype(left.dtype()), left.device());
    kernels::matmul(left, right, g);
    return fold_batch(g, lead, input.shape());
  }
};

}  // namespace

Var matmul(const Var& a, const Var& b) {
  SACCADE_CHECK(a.rank() >= 2 && b.rank() >= 2 && a.dim(-1) == b.dim(-2),
                "[matmul] got shapes {} and {}, expected [..., M, K] and [..., K, N]", a.shape(), b.shape());
  return run_op(Matmul{}, {a, b});
}

}  // namespace saccade
