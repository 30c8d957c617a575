// The implementations of process groups.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/distributed/process_group.h"
#include "core/distributed/rank_channel.h"

namespace saccade {

// The seconds after which a silent rank counts as lost: SACCADE_RANK_TIMEOUT, or 20.
double rank_timeout();

// A group over Open MPI, which is opened at run time. Throws Error if it is missing or its launcher did not
// start this process.
std::unique_ptr<ProcessGroup> open_mpi_group(const Ranks& ranks);
// A group over NCCL, also opened at run time, on this process's GPU. Throws Error, and InputError if two
// ranks share a GPU. nccl_group_cuda.cpp sets it in builds that have it.
inline std::unique_ptr<ProcessGroup> (*open_nccl_group)(const Ranks& ranks) = nullptr;

// Opens the channel of all ranks: rank 0 listens where the launcher says, or tells the others its address
// over Open MPI, which is then closed again. Throws Error, and InputError if the address is unknown.
std::unique_ptr<RankChannel> open_channel(const Ranks& ranks);
std::unique_ptr<RankChannel> open_channel_over_mpi(const Ranks& ranks);

// Exchanges what each rank computes on ("the CPU", or a GPU by a name that is unique in the world). Throws
// InputError, on all ranks, if they differ in kind or two share a GPU.
void check_devices(RankChannel& channel, const std::string& own);
// Runs work before there is a group that could report its failure: an Error in it ends the job on all ranks.
void fail_on_all_ranks(RankChannel& channel, const std::function<void()>& work);

}  // namespace saccade
