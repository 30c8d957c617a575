// The engine walks the recorded nodes from the loss back to the leaves, newest first, without recursion. It
// adds the gradients that backward functions return in a fixed order, so results have the same bits every
// time.
#pragma once

#include <functional>

#include "autograd/function.h"

namespace saccade {

// Adds d(sum of seed * root)/d(leaf) to the grad of every leaf that requires one, and frees the graph. The
// seed defaults to 1 for a single-element root. Throws Error if the graph was already used, or if a backward
// returns a gradient of the wrong shape, or none for an input that needs one (naming the op).
void backward(const Var& root, const Tensor& seed = {});
// The same, and calls `done` for every leaf of the graph once its gradient is complete, while the rest of the
// graph is still being walked. No leaf is reported before all recomputed() functions in the graph have run,
// since any may use it; leaves that only they use are not reported.
using LeafObserver = std::function<void(VarState& leaf)>;
void backward(const Var& root, const LeafObserver& done);

// Like backward, but stops at the first non-finite gradient with an Error naming the op that made it. Slow:
// for diagnosis after a non-finite loss.
void backward_checked(const Var& root, const Tensor& seed = {});

// Runs fn(inputs) without recording it and recomputes it during backward, which trades time for memory.
// Random ops redraw the same numbers. Gradients flow to `inputs` and to every leaf that fn uses (such as
// parameters).
Var recomputed(const std::function<Var(const Vars&)>& fn, const Vars& inputs);

}  // namespace saccade
