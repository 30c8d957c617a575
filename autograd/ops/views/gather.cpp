// Selection of rows by index: index_select, gather_rows and embedding use one kernel on different shapes.
#include "core/kernels/gather/gather.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

// x [N, S, C], indices [N, K] -> [N, K, C]
struct Gather {
  static constexpr const char* kName = "gather";
  static constexpr auto macs = no_macs;
  Tensor indices;
  int64_t rows = 0;  // S
  void describe(OpAttributes& to) const { to.add("indices", indices); }

  Tensor forward(Context& ctx, const Tensors& in) {
    rows = in[0].dim(1);
    Tensor y = Tensor::empty({in[0].dim(0), indices.dim(1), in[0].dim(2)}, in[0].dtype(), in[0].device());
    kernels::gather_rows(in[0].contiguous(), indices, y);
    ctx.save(indices);
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    // Repeated rows are added without rounding.
    Tensor dx = Tensor::empty({dy.dim(0), rows, dy.dim(2)}, sum_dtype(dy.dtype()), dy.device());
    kernels::scatter_add_rows(dy.contiguous(), ctx.saved(0), dx);
    return {dx};
  }
};

// Returns contiguous indices of dtype i64, each in [0, rows). A GPU's are not read back, so not checked.
Tensor checked(const char* op, const Tensor& indices, int64_t rows) {
  SACCADE_CHECK(indices.dtype() == DType::kI64, "[{}] indices of dtype {}, expected i64", op,
                indices.dtype());
  Tensor t = indices.contiguous();
  if (t.device() != Device::kCpu) return t;
  const int64_t* p = t.data<int64_t>();
  for (int64_t i = 0, n = t.numel(); i < n; ++i)
    SACCADE_CHECK(p[i] >= 0 && p[i] < rows, "[{}] index {} at position {}, expected 0 <= index < {}", op,
                  p[i], i, rows);
  return t;
}

}  // namespace

Var gather_rows(const Var& x, const Tensor& indices) {
  SACCADE_CHECK(x.rank() == 3 && indices.rank() == 2 && indices.dim(0) == x.dim(0),
                "[gather_rows] x {} and indices {}, expected [N, S, C] and [N, K]", x.shape(),
                indices.shape());
  return run_op(Gather{checked("gather_rows", indices, x.dim(1)).to(x.device())}, {x});
}

Var index_select(const Var& x, const Tensor& indices) {
  SACCADE_CHECK(x.rank() >= 1 && indices.rank() == 1,
                "[index_select] x {} and indices {}, expected [S, ...] and [K]", x.shape(), indices.shape());
  Shape out = x.shape();
  int64_t rows = x.dim(0), columns = 1;
  for (int a = 1; a < x.rank(); ++a) columns *= x.dim(a);
  out[0] = indices.dim(0);
  Tensor picks = checked("index_select", indices, rows).reshape({1, out[0]});
  return reshape(run_op(Gather{picks.to(x.device())}, {reshape(x, {1, rows, columns})}), out);
}

Var embedding(const Var& weight, const Tensor& indices) {
  SACCADE_CHECK(weight.rank() == 2, "[embedding] weight {}, expected [V, C]", weight.shape());
  Shape out = indices.shape();
  out.push_back(weight.dim(1));
  Tensor picks = checked("embedding", indices, weight.dim(0)).reshape({1, indices.numel()});
  return reshape(
      run_op(Gather{picks.to(weight.device())}, {reshape(weight, {1, weight.dim(0), weight.dim(1)})}), out);
}

}  // namespace saccade
