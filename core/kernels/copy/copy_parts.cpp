#include "core/kernels/copy/copy_parts.h"

#include "core/kernels/copy/copy.h"

namespace saccade::kernels {
namespace {

void copy_parts_generic(Tensor& block, std::span<const Tensor> xs, std::span<const int64_t> begins) {
  for (size_t i = 0; i < xs.size(); ++i) {
    Tensor place = block.slice(0, begins[i], begins[i] + xs[i].numel()).reshape(xs[i].shape());
    copy(xs[i], place);
  }
}

SACCADE_REGISTER_KERNEL(copy_parts, &copy_parts_generic);

}  // namespace
}  // namespace saccade::kernels
