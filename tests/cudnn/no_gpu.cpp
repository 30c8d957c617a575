// For programs that plan for described GPUs with the libraries alone: there is no stream,
// and nobody asks for one.
#include "core/runtime/cuda/api.h"

namespace saccade::cuda {

cudaStream_t stream() { fail("[cuda] plans for a described GPU cannot be run"); }

}  // namespace saccade::cuda
