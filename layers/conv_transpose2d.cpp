#include "layers/conv_transpose2d.h"

namespace saccade {

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, int64_t stride, Initializer weight,
                                 Initializer bias)
    : stride_(stride),
      weight_(param("weight", {in, out, stride, stride}, std::move(weight))),
      bias_(param("bias", {out}, std::move(bias))) {}

Var ConvTranspose2d::forward(const Var& x, Activation activation) const {
  return conv_transpose2d(x, weight_, bias_, stride_, activation);
}

}  // namespace saccade
