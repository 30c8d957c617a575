// What process groups are made of.
#pragma once

#include <memory>

#include "core/distributed/process_group.h"

namespace saccade {

// The seconds after which a silent rank counts as lost: SACCADE_RANK_TIMEOUT, or 20.
double rank_timeout();

// Over Open MPI, which is opened at run time. Throws Error where it is missing or was not started by its launcher.
std::unique_ptr<ProcessGroup> open_mpi_group(const Ranks& ranks);

}  // namespace saccade
