// NCCL 2, opened when several processes train together on a GPU each.
#pragma once

#include <string>

#include "core/runtime/cuda/api.h"
#include "core/runtime/cuda/libraries/nccl_api.h"

namespace saccade::cuda {

// The library's functions under their own names.
struct NcclApi {
#define F(name) decltype(&::name) name;
  SACCADE_NCCL_FUNCTIONS(F)
#undef F
};

// Throws Error with a one-line message if NCCL is missing or too old.
const NcclApi& nccl();
// Throws Error naming the call, NCCL's status and its reason.
void check(ncclResult_t status, const char* call);
// Returns as one line what has gone wrong asynchronously since the last call, or "". May be called from any
// thread.
std::string nccl_problem(ncclComm_t comm);

}  // namespace saccade::cuda
