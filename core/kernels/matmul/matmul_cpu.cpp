// Batched products by the route chosen in core/kernels/matmul/routes_cpu.h. For oneDNN, transposed and
// broadcast factors are described by their strides, not copied.
#include "core/kernels/matmul/matmul.h"

#include "core/kernels/matmul/packed_gemm_cpu.h"
#include "core/kernels/matmul/routes_cpu.h"
#include "core/runtime/cpu/onednn.h"

namespace saccade::kernels {
namespace {

using namespace onednn;

// Whether oneDNN can read a batch of matrices in place: rows or columns contiguous, no overlap.
bool readable(const Tensor& t) {
  const Shape &s = t.shape(), &stride = t.strides();
  bool rows = stride[2] == 1 && stride[1] >= s[2];
  bool columns = stride[1] == 1 && stride[2] >= s[1];
  return (rows || columns) && (s[0] == 1 || stride[0] > 0);
}

Desc describe(const Tensor& t) {
  const Shape &s = t.shape(), &stride = t.strides();
  int64_t batch = s[0] == 1 ? std::max(s[1] * stride[1], s[2] * stride[2]) : stride[0];
  return Desc({s[0], s[1], s[2]}, type_of(t.dtype()), dnnl::memory::dims{batch, stride[1], stride[2]});
}

void matmul_cpu(const Tensor& a_in, const Tensor& b_in, Tensor& c) {
  if (cpu::product_route(cpu::Pass::kForward, a_in.dtype(), c.dim(1), c.dim(2), a_in.dim(2)) ==
      cpu::ProductRoute::kPacked)
    return cpu::packed_gemm(a_in, b_in, c);
  Tensor a = readable(a_in) ? a_in : a_in.contiguous(), b = readable(b_in) ? b_in : b_in.contiguous();
  // One right factor for all: the batch is just more rows.
  if (b.dim(0) == 1 && a.dim(0) == c.dim(0) && a.dim(0) > 1 && a.is_contiguous()) {
    Tensor rows = c.reshape({1, c.dim(0) * c.dim(1), c.dim(2)});
    return matmul_cpu(a.reshape({1, a.dim(0) * a.dim(1), a.dim(2)}), b, rows);
  }
  Key key(kMatmul);
  key.add(3, static_cast<int>(a.dtype()), static_cast<int>(c.dtype()));
  for (const Shape& s : {a.shape(), a.strides(), b.shape(), b.strides(), c.shape()})
    for (int64_t d : s) key.add(d);
  auto op = compiled(key, [&] {
    Desc da = describe(a), db = describe(b), dc = describe(c);
    const auto pd = described<dnnl::matmul>(attributes(), da, db, dc);
    return Compiled(pd, dnnl::matmul(pd),
                    {{DNNL_ARG_SRC, da}, {DNNL_ARG_WEIGHTS, db}, {DNNL_ARG_DST, dc, true}});
  });
  op->run({a.raw(), b.raw(), c.raw()});
}

SACCADE_REGISTER_TUNED_KERNEL(matmul, Device::kCpu, &matmul_cpu, &takes_full_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
