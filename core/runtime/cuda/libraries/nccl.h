// NCCL 2, opened when several processes with a GPU each train together.
#pragma once

#include <string>

#include "core/runtime/cuda/api.h"
#include "core/runtime/cuda/libraries/nccl_api.h"

namespace saccade::cuda {

// The library's functions, by their own names.
struct NcclApi {
#define F(name) decltype(&::name) name;
  SACCADE_NCCL_FUNCTIONS(F)
#undef F
};

// Throws Error, in one line, when NCCL is missing or too old.
const NcclApi& nccl();
// Throws Error naming the call, NCCL's status and its reason.
void check(ncclResult_t status, const char* call);
// What has gone wrong on the way since the last call, in one line; "" as long as nothing has.
// From any thread.
std::string nccl_problem(ncclComm_t comm);

}  // namespace saccade::cuda
