// The linear layer's products by the route chosen in core/kernels/matmul/routes_cpu.h. For oneDNN, measured
// on the shapes of a detector's step (5440 and 23890 rows, 128 to 1024 columns), packing the right factor
// into oneDNN's own layout saves 10 to 30 % and costs a few microseconds, so it is packed whenever there are
// enough rows.
#include "core/kernels/linear/linear_cpu.h"

#include <bit>

#include "core/kernels/matmul/packed_gemm_cpu.h"
#include "core/kernels/matmul/routes_cpu.h"
#include "core/runtime/cpu/onednn.h"

namespace saccade::kernels {
namespace {

using namespace onednn;
using cpu::Pass;

constexpr int64_t kPackRows = 512;  // with fewer rows packing costs more than it saves

Desc matrix(int64_t rows, int64_t columns, DType dtype, bool transposed = false) {
  using Dims = dnnl::memory::dims;
  return Desc(Dims{rows, columns}, type_of(dtype), transposed ? Dims{1, rows} : Dims{columns, 1});
}

// y [M, N] = act(a [M, K] b [K, N] + bias) + shift; b may be stored transposed
void product(const Tensor& a, const Tensor& b, bool b_transposed, const Tensor& bias, Activation act,
             float shift, Tensor& y) {
  int64_t m = y.dim(0), n = y.dim(1), k = a.dim(1);
  bool pack = m >= kPackRows;
  Key key(kMatmul);
  key.add(2, m, n, k, static_cast<int>(a.dtype()), static_cast<int>(y.dtype()), b_transposed, bias.defined(),
          static_cast<int>(act), std::bit_cast<int32_t>(shift));
  auto op = compiled(key, [&] {
    Desc da = matrix(m, k, a.dtype()), db = matrix(k, n, b.dtype(), b_transposed);
    Desc wanted = pack ? Desc({k, n}, type_of(b.dtype()), dnnl::memory::format_tag::any) : db;
    Desc dy = matrix(m, n, y.dtype()), dbias = bias.defined() ? matrix(1, n, DType::kF32) : Desc();
    const dnnl::primitive_attr attr = attributes(act == Activation::kRelu, shift);
    const auto pd = bias.defined() ? described<dnnl::matmul>(attr, da, wanted, dbias, dy)
                                   : described<dnnl::matmul>(attr, da, wanted, dy);
    std::vector<Argument> arguments{{DNNL_ARG_SRC, da}, {DNNL_ARG_WEIGHTS, db}, {DNNL_ARG_DST, dy, true}};
    if (bias.defined()) arguments.push_back({DNNL_ARG_BIAS, dbias});
    return Compiled(pd, dnnl::matmul(pd), arguments);
  });
  op->run({a.raw(), b.raw(), y.raw(), data_or_null<float>(bias)}, &b);
}

// The other route; either factor may be transposed.
void packed_product(const Tensor& a, const Tensor& b, Tensor& y, const Tensor& bias = {},
                    Activation act = Activation::kNone, float shift = 0) {
  Tensor out = y.unsqueeze(0);
  cpu::packed_gemm(a.unsqueeze(0), b.unsqueeze(0), out, bias, act, shift);
}

bool is_packed(Pass pass, const Tensor& left, const Tensor& y, int64_t k) {
  return cpu::product_route(pass, left.dtype(), y.dim(0), y.dim(1), k) == cpu::ProductRoute::kPacked;
}

void forward_cpu(const Tensor& x, const Tensor& w, const Tensor& bias, Activation act, Tensor& y) {
  cpu::linear_forward(x, w, bias, act, 0, y);
}

void backward_data_cpu(const Tensor& dz, const Tensor& w, Tensor& dx) {
  if (is_packed(Pass::kBackwardData, dz, dx, dz.dim(1))) return packed_product(dz, w, dx);
  product(dz, w, false, {}, Activation::kNone, 0, dx);
}

// dw = dz^T x for dtypes narrower than dw's f32
void backward_weight_low(const Tensor& dz, const Tensor& x, Tensor& dw) {
  int64_t rows = x.dim(0), n = dw.dim(0), k = dw.dim(1);
  Key key(kLinearBackwardWeight);
  key.add(rows, n, k, static_cast<int>(dz.dtype()));
  auto op = compiled(key, [&] {
    Desc src = matrix(rows, k, x.dtype()), dst = matrix(rows, n, dz.dtype()), out = matrix(n, k, DType::kF32);
    Desc any({n, k}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
    Desc any_low({n, k}, type_of(x.dtype()), dnnl::memory::format_tag::any);
    const auto forward = described<dnnl::inner_product_forward>(
        attributes(), dnnl::prop_kind::forward_training, src, any_low, dst);
    const auto pd = described_gradient<dnnl::inner_product_backward_weights>(forward, src, any, dst);
    return Compiled(pd, dnnl::inner_product_backward_weights(pd),
                    {{DNNL_ARG_SRC, src}, {DNNL_ARG_DIFF_DST, dst}, {DNNL_ARG_DIFF_WEIGHTS, out, true}});
  });
  op->run({x.raw(), dz.raw(), dw.raw()});
}

void backward_weight_cpu(const Tensor& dz, const Tensor& x, Tensor& dw) {
  if (is_packed(Pass::kBackwardWeight, dz, dw, x.dim(0))) return packed_product(dz.transpose(0, 1), x, dw);
  if (dz.dtype() == DType::kF32) {
    // Row-major C = dz^T x; the fastest of oneDNN's three ways for f32.
    int64_t m = dw.dim(0), n = dw.dim(1), k = x.dim(0);
    dnnl_status_t status = dnnl_sgemm('T', 'N', m, n, k, 1.0f, dz.data<float>(), m, x.data<float>(), n, 0.0f,
                                      dw.data<float>(), n);
    SACCADE_CHECK(status == dnnl_success, "[linear] dnnl_sgemm failed with status {}",
                  static_cast<int>(status));
    return;
  }
  sum_over_samples(x.dim(0), x.dim(0), dw, [&](int64_t begin, int64_t end, Tensor& sum) {
    backward_weight_low(dz.slice(0, begin, end), x.slice(0, begin, end), sum);
  });
}

SACCADE_REGISTER_TUNED_KERNEL(linear_forward, Device::kCpu, &forward_cpu, &takes_full_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(linear_backward_data, Device::kCpu, &backward_data_cpu,
                              &takes_full_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(linear_backward_weight, Device::kCpu, &backward_weight_cpu,
                              &takes_full_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels

namespace saccade::cpu {

void linear_forward(const Tensor& x, const Tensor& w, const Tensor& bias, Activation act, float shift,
                    Tensor& y) {
  using namespace kernels;
  if (is_packed(Pass::kForward, x, y, x.dim(1)))
    packed_product(x, w.transpose(0, 1), y, bias, act, shift);
  else
    product(x, w, true, bias, act, shift, y);
}

}  // namespace saccade::cpu
