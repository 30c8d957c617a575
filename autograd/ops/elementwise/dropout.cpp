// Dropout of elements and of samples. The mask is drawn again in backward from the op's random stream.
#include "autograd/ops.h"
#include "core/kernels/random/random.h"

namespace saccade {
namespace {

template <bool kPath>
struct Dropout {
  static constexpr const char* kName = kPath ? "drop_path" : "dropout";
  static constexpr auto macs = no_macs;
  double p;
  Context::RandomStream stream{};

  Tensor forward(Context& ctx, const Tensors& in) {
    stream = ctx.random_stream();
    return run(in[0]);
  }
  Gradients backward(const Context&, const Tensor& dy) const { return {run(dy)}; }

  Tensor run(const Tensor& x) const {
    Tensor y = x.empty_like();
    if constexpr (kPath) {
      kernels::drop_path(x.contiguous(), p, stream.key, stream.call,
                         static_cast<uint64_t>(stream.first_of(x.dim(0))), y);
    } else {
      kernels::dropout(x.contiguous(), p, stream.key, stream.call,
                       static_cast<uint64_t>(stream.first_of(x.numel()) / 4 * 4), y);
    }
    return y;
  }
};

template <bool kPath>
Var drop(const Var& x, double p, bool training) {
  constexpr const char* name = Dropout<kPath>::kName;
  SACCADE_CHECK(p >= 0 && p <= 1, "[{}] probability {}, expected 0 <= p <= 1", name, p);
  SACCADE_CHECK(!kPath || x.rank() >= 1, "[{}] input is a scalar, expected at least one axis", name);
  return !training || p == 0 ? x : run_op(Dropout<kPath>{p}, {x});
}

}  // namespace

Var dropout(const Var& x, double p, bool training) { return drop<false>(x, p, training); }
Var drop_path(const Var& x, double p, bool training) { return drop<true>(x, p, training); }

}  // namespace saccade
