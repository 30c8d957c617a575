// Single-source window attention: attention_generic.h over the heads of the windows.
#include "core/kernels/window_attention/window_attention.h"

#include "core/kernels/attention/attention_generic.h"
#include "core/kernels/window_attention/window_heads.h"

namespace saccade::kernels {
namespace {

void forward_generic(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                     const WindowParams& params, Tensor& y, Tensor& lse) {
  dispatch_float(qkv.dtype(), "window_attention", [&]<class T>() {
    WindowHeads<T> p(qkv, table, padding, mask, params);
    p.set_outputs(y, lse);
    forward_of_heads(p);
  });
}

void backward_generic(const Tensor& qkv, const Tensor& table, const Tensor& padding, const Tensor& mask,
                      const WindowParams& params, const Tensor& lse, const Tensor& dy, Tensor& dqkv,
                      Tensor& dtable, Tensor& dpadding) {
  dispatch_float(qkv.dtype(), "window_attention", [&]<class T>() {
    using A = acc_t<T>;
    WindowHeads<T> p(qkv, table, padding, mask, params);
    Tensor pairs;  // of every head, summed over the windows
    if (dtable.defined()) {
      pairs = Tensor::zeros(Shape{p.H, p.queries, p.keys}, dtable.dtype(), dtable.device());
      p.dpairs = pairs.data<A>();
      p.group_windows = std::max<int64_t>(1, p.windows());
    }
    p.with_gradients(lse, dy, dqkv, dpadding, [&] { backward_of_heads(p); });
    if (dtable.defined())
      for_each(dtable.numel(),
               FoldTable<A>{pairs.data<A>(), dtable.data<A>(), p.map.window, p.table_side, p.H, p.keys},
               p.queries * 2);
  });
}

SACCADE_REGISTER_KERNEL(window_attention_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(window_attention_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
