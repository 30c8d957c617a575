// Batched products through cuBLASLt; transposed and broadcast factors are described by their strides, not
// copied.
#include "core/kernels/matmul/matmul.h"

#include "core/runtime/cuda/libraries/cublaslt.h"

namespace saccade::kernels {
namespace {

// Whether the matrices of t can be read in place: rows or columns contiguous, without overlap.
bool describe(const Tensor& t, cuda::Matrices& m) {
  const int64_t rows = t.dim(1), columns = t.dim(2), down = t.strides()[1], across = t.strides()[2];
  m = {t.raw(), t.dtype(), rows, columns, false, columns, t.dim(0) == 1 ? 0 : t.strides()[0]};
  if ((columns == 1 || across == 1) && (rows == 1 || down >= columns)) {
    if (rows > 1) m.leading = down;
    return true;
  }
  m.transposed = true;
  m.leading = columns > 1 ? across : rows;
  return (rows == 1 || down == 1) && m.leading >= rows;
}

void matmul_cuda(const Tensor& a_in, const Tensor& b_in, Tensor& c) {
  Tensor a = a_in, b = b_in;
  cuda::Matrices left, right;
  if (!describe(a, left)) describe(a = a.contiguous(), left);
  if (!describe(b, right)) describe(b = b.contiguous(), right);
  int64_t batch = c.dim(0), rows = c.dim(1), columns = c.dim(2);
  cuda::Matrices result{c.raw(), c.dtype(), rows, columns, false, columns, batch == 1 ? 0 : rows * columns};
  // One right factor for all: the batch is just more rows.
  if (batch > 1 && b.dim(0) == 1 && a.dim(0) == batch && a.is_contiguous()) {
    left.rows = result.rows = batch * rows;
    left.transposed = false;
    left.leading = a.dim(2);
    left.batch_stride = result.batch_stride = 0;
    batch = 1;
  }
  if (!cuda::product(batch, left, right, result)) matmul.generic(a_in, b_in, c);
}

SACCADE_REGISTER_TUNED_KERNEL(matmul, Device::kCuda, &matmul_cuda, &takes_full_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
