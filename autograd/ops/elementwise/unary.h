// Any unary function of core/kernels/unary/unary_functions.h as a differentiable op; ops.h names them.
#pragma once

#include "autograd/function.h"
#include "core/kernels/unary/unary_functions.h"

namespace saccade {

Var unary(kernels::UnaryOp op, const Var& x);
inline Var unary(Activation activation, const Var& x) { return unary(kernels::unary_op(activation), x); }

}  // namespace saccade
