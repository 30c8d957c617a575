// Whether kernels must give the same bits in every run.
#pragma once

namespace saccade {

// Of this thread's kernels; false allows float atomics where they are faster. Ops set it from
// execution().deterministic (autograd/scope.h).
inline thread_local bool deterministic_kernels = true;

}  // namespace saccade
