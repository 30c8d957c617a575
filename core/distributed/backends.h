// What process groups are made of.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/distributed/process_group.h"
#include "core/distributed/rank_channel.h"

namespace saccade {

// The seconds after which a silent rank counts as lost: SACCADE_RANK_TIMEOUT, or 20.
double rank_timeout();

// Over Open MPI, which is opened at run time. Throws Error where it is missing or was not started by its
// launcher.
std::unique_ptr<ProcessGroup> open_mpi_group(const Ranks& ranks);
// Over NCCL, also opened at run time; the GPU is the one that this process uses. Throws Error, and InputError
// where two ranks have one GPU. Set by nccl_group_cuda.cpp in builds that have it.
inline std::unique_ptr<ProcessGroup> (*open_nccl_group)(const Ranks& ranks) = nullptr;

// The channel of all ranks: rank 0 listens where the launcher says, or at a place that it tells the others
// over Open MPI, which is then left again. Throws Error, and InputError where nobody knows the place.
std::unique_ptr<RankChannel> open_channel(const Ranks& ranks);
std::unique_ptr<RankChannel> open_channel_over_mpi(const Ranks& ranks);

// On what each rank computes, as it calls it ("the CPU", or a GPU with a name that no other in the world
// has), is exchanged. Throws InputError, on all ranks, where they differ in kind and where two have one GPU.
void check_devices(RankChannel& channel, const std::string& own);
// Runs the work, of which an Error ends the job on all ranks: before there is a group that could say so.
void fail_on_all_ranks(RankChannel& channel, const std::function<void()>& work);

}  // namespace saccade
