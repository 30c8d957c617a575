// The parts of NCCL 2 that the program uses, with NVIDIA's names and numbers: the library is opened at run
// time, so its header is not needed to build. tests/core/libraries compares this file with it where it
// exists; the emulated GPU has its own functions under these names (tests/cuda_emulator/nccl.cpp).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

struct ncclUniqueId {
  char internal[128];
};
enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclDataType_t : int { ncclUint8 = 1, ncclFloat32 = 7 };
enum ncclRedOp_t : int { ncclSum = 0 };
using ncclComm_t = struct ncclComm*;

#define SACCADE_NCCL_FUNCTIONS(F) \
  F(ncclAllGather)                \
  F(ncclAllReduce)                \
  F(ncclCommDestroy)              \
  F(ncclCommGetAsyncError)        \
  F(ncclCommInitRank)             \
  F(ncclGetErrorString)           \
  F(ncclGetLastError)             \
  F(ncclGetUniqueId)              \
  F(ncclGetVersion)               \
  F(ncclGroupEnd)                 \
  F(ncclGroupStart)               \
  F(ncclRecv)                     \
  F(ncclSend)

ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* status);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclAllGather(const void* part, void* all, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
