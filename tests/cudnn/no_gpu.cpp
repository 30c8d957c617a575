// For programs that plan for described GPUs with only the libraries: there is no stream, and none is needed.
#include "core/runtime/cuda/api.h"

namespace saccade::cuda {

cudaStream_t stream() { fail("[cuda] plans for a described GPU cannot be run"); }

}  // namespace saccade::cuda
