// This process's place among several, as its launcher says.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace saccade {

// `size` processes, numbered by rank, train together; local_size of them (0 if not known), numbered by
// local_rank, run on this machine.
struct Ranks {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  std::string source;  // the launcher, such as "Open MPI"; empty for a process that is alone
  // Where rank 0 listens, if the launcher says so; otherwise port is 0.
  std::string host;
  int port = 0;
  uint64_t job = 0;  // the same on all ranks, different in every job
  // For a process that is alone: says that a launcher's rank or size is set without the other.
  std::string warning = {};

  std::string to_string() const;  // "rank 1 of 4 (local rank 1), as Open MPI says"
};

// The values from the command line; -1 and "" if not given.
struct RankFlags {
  int64_t rank = -1, size = -1, local_rank = -1;
  std::string master;  // HOST:PORT of rank 0
};

// Looks in this order: the flags, then the variables of Open MPI (OMPI_COMM_WORLD_*), PMI (PMI_*), Slurm
// (SLURM_*, within srun) and torchrun (RANK, WORLD_SIZE, ...; MASTER_ADDR and MASTER_PORT apply to all of
// them). torchrun itself, which sets TORCHELASTIC_RUN_ID, comes before launchers in whose jobs it was
// started. If there are none, the process is alone; a launcher counts only if both its rank and its size are
// set, and `warning` tells of one of them alone. Throws InputError for a rank outside [0, size), for a flag
// without those that it needs (--rank without --ranks), and for a bad number or address.
using Environment = std::function<const char*(const char*)>;
Ranks find_ranks(const RankFlags& flags, const Environment& variable);

}  // namespace saccade
