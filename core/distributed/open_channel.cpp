#include <fmt/format.h>

#include "core/distributed/backends.h"
#include "core/tensor/error.h"

namespace saccade {

std::unique_ptr<RankChannel> open_channel(const Ranks& ranks) {
  if (ranks.port == 0 && (ranks.source == "Open MPI" || ranks.source == "PMI"))
    return open_channel_over_mpi(ranks);
  if (ranks.port == 0)
    fail_input(
        "{}, without the address of rank 0: expected --master HOST:PORT, or MASTER_ADDR and MASTER_PORT",
        ranks.to_string());
  std::unique_ptr<RankListener> listener;
  const bool local =
      ranks.local_size == ranks.size && (ranks.host == "127.0.0.1" || ranks.host == "localhost");
  if (ranks.rank == 0) listener = std::make_unique<RankListener>(ranks.port, local);
  return std::make_unique<RankChannel>(
      RankChannel::Options{ranks.rank, ranks.size, ranks.host, ranks.port, ranks.job, rank_timeout()},
      listener.get());
}

void check_devices(RankChannel& channel, const std::string& own) {
  const std::string cpu = "the CPU";
  const std::vector<std::string> all = channel.exchange(own);
  std::string problem;
  for (size_t r = 1; r < all.size() && problem.empty(); ++r) {
    if ((all[r] == cpu) != (all[0] == cpu))
      problem = fmt::format("rank {} computes on {} and rank 0 on {}, expected the same --device everywhere",
                            r, all[r] == cpu ? "the CPU" : "a GPU", all[0] == cpu ? "the CPU" : "a GPU");
    for (size_t q = 0; q < r && problem.empty() && all[r] != cpu; ++q)
      if (all[r] == all[q])
        problem = fmt::format(
            "rank {} and rank {} have the same GPU ({}), expected one for each process: no more processes "
            "than GPUs, and --device cuda, which gives each its own",
            q, r, all[r].substr(0, all[r].find(" of ")));
  }
  if (!problem.empty()) throw InputError(problem);
}

void fail_on_all_ranks(RankChannel& channel, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    channel.fail(error.what(), dynamic_cast<const InputError*>(&error) ? 2 : 1);
    throw;
  }
}

}  // namespace saccade
