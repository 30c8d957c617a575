// Which of several processes this one is, as its launcher says.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace saccade {

// size processes, numbered by rank, train together; local_size of them (0: nobody says how many), numbered by
// local_rank, run on this machine.
struct Ranks {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  std::string source;  // who says so: "Open MPI"; empty for a process that is alone
  // Where rank 0 listens, if the launcher says so; port 0: it does not.
  std::string host;
  int port = 0;
  uint64_t job = 0;  // the same on all ranks, another in every job

  std::string to_string() const;  // "rank 1 of 4 (local rank 1), as Open MPI says"
};

// What the command line says; -1 and "": nothing.
struct RankFlags {
  int64_t rank = -1, size = -1, local_rank = -1;
  std::string master;  // HOST:PORT of rank 0
};

// In this order: the flags, then the variables of Open MPI (OMPI_COMM_WORLD_*), PMI (PMI_*), Slurm (SLURM_*,
// within srun) and torchrun (RANK, WORLD_SIZE, ...; MASTER_ADDR and MASTER_PORT count with all of them).
// torchrun itself, which sets TORCHELASTIC_RUN_ID, comes before the launchers within whose jobs it was
// started. Without any, a process that is alone. Throws InputError for a rank that is not in
// [0, size), and for flags or variables of which one is missing.
using Environment = std::function<const char*(const char*)>;
Ranks find_ranks(const RankFlags& flags, const Environment& variable);

}  // namespace saccade
