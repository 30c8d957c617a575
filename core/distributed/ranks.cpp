#include "core/distributed/ranks.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "core/tensor/error.h"
#include "core/tensor/philox.h"

namespace saccade {
namespace {

struct Launcher {
  const char* name;
  const char *rank, *size, *local_rank;
  const char* local_size;  // or the number of machines if `nodes`
  bool nodes;
  const char* job;              // the same on all ranks and different in other jobs
  const char* needs = nullptr;  // if set, this variable must be set too, and not empty
};
constexpr const char *kSlurm = "Slurm", *kTorchrun = "torchrun";
constexpr std::array kLaunchers{
    // Started within a job of another launcher, whose variables are still set: the inner launcher counts.
    Launcher{kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false, "TORCHELASTIC_RUN_ID",
             "TORCHELASTIC_RUN_ID"},
    Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE", false, "PMIX_NAMESPACE"},
    Launcher{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", false, "PMI_ID"},
    // A script of sbatch also has its job's variables, but only srun starts a process for each rank.
    Launcher{kSlurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NNODES", true, "SLURM_JOB_ID",
             "SLURM_STEP_ID"},
    Launcher{kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false, "TORCHELASTIC_RUN_ID"},
};

std::optional<int> number(const Environment& variable, const char* name) {
  const char* text = name ? variable(name) : nullptr;
  if (!text) return std::nullopt;
  const std::string_view word = text;
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0)
    fail_input("{}: \"{}\", expected a whole number, at least 0", name, shortened(word));
  return value;
}

void check(const Ranks& r) {
  if (r.size < 1) fail_input("{} processes ({}), expected at least 1", r.size, r.source);
  if (r.rank >= r.size)
    fail_input("rank {} of {} ({}), expected a rank below the number of processes", r.rank, r.size, r.source);
}

void read_master(const std::string& text, const char* where, Ranks& r) {
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), r.port);
  if (error != std::errc() || end != port.data() + port.size() || colon == 0 || r.port < 1 || r.port > 65535)
    fail_input("{}: \"{}\", expected HOST:PORT of rank 0", where, shortened(text));
  r.host = text.substr(0, colon);
}

// Slurm puts rank 0 on the first of its nodes ("gpu[03-07,11],big1"). The ports of two steps rarely collide,
// and tokens tell the steps apart. The ports are below those that Linux assigns (from 32768).
void listen_on_first(const std::string& nodes, Ranks& r) {
  const size_t end = nodes.find_first_of(",[");
  r.host = nodes.substr(0, end);
  if (end != std::string::npos && nodes[end] == '[')
    r.host += nodes.substr(end + 1, nodes.find_first_of(",-]", end) - end - 1);
  r.port = static_cast<int>(20000 + r.job % 12000);
}

// Returns nothing without a rank and a size; one of them alone, which may belong to something else, gives a
// warning.
std::optional<Ranks> ask(const Launcher& l, const Environment& variable, std::string& warning) {
  if (const char* needed = l.needs ? variable(l.needs) : "yes"; !needed || !*needed) return std::nullopt;
  const bool has_rank = variable(l.rank) != nullptr, has_size = variable(l.size) != nullptr;
  if (has_rank != has_size && warning.empty())
    warning = fmt::format("warning: {} is set, but {} ({}) is not: this process trains alone",
                          has_rank ? l.rank : l.size, has_rank ? l.size : l.rank, l.name);
  if (!has_rank || !has_size) return std::nullopt;
  const auto rank = number(variable, l.rank), size = number(variable, l.size);
  if (!rank || !size) return std::nullopt;
  Ranks r;
  r.source = l.name;
  r.rank = *rank;
  r.size = *size;
  r.local_rank = number(variable, l.local_rank).value_or(r.rank);
  const int count = number(variable, l.local_size).value_or(0);
  r.local_size = l.nodes && count > 0 ? (r.size + count - 1) / count : count;
  const char* job = variable(l.job);
  r.job = hash_name(job ? job : l.name);
  const char* step =
      l.name == kSlurm ? variable("SLURM_STEP_ID") : nullptr;  // steps of a job may run side by side
  if (step) r.job = mix_key(r.job, hash_name(step));
  return r;
}

}  // namespace

std::string Ranks::to_string() const {
  if (source.empty()) return "one process";
  return fmt::format("rank {} of {} (local rank {}), according to {}", rank, size, local_rank, source);
}

Ranks find_ranks(const RankFlags& flags, const Environment& variable) {
  Ranks r;
  if (flags.rank >= 0 || flags.size >= 0) {
    if (flags.rank < 0 || flags.size < 0)
      fail_input("--{}: is given alone, expected both --rank and --ranks", flags.rank < 0 ? "ranks" : "rank");
    r.source = "the command line";
    r.rank = static_cast<int>(flags.rank);
    r.size = static_cast<int>(flags.size);
    r.local_rank = static_cast<int>(flags.local_rank >= 0 ? flags.local_rank : flags.rank);
    r.local_size = 0;
    r.job = hash_name(flags.master);
  } else {
    std::string warning;
    for (const Launcher& launcher : kLaunchers)
      if (const auto found = ask(launcher, variable, warning)) {
        r = *found;
        break;
      }
    if (r.source.empty()) r.warning = std::move(warning);
    if (r.source.empty() && (flags.local_rank >= 0 || !flags.master.empty()))
      fail_input("--{}: is given alone, expected --rank and --ranks, or a launcher's variables",
                 flags.local_rank >= 0 ? "local-rank" : "master");
    if (flags.local_rank >= 0) r.local_rank = static_cast<int>(flags.local_rank);
  }
  check(r);
  const char *host = variable("MASTER_ADDR"), *port = variable("MASTER_PORT");
  if (!flags.master.empty()) {
    read_master(flags.master, "--master", r);
  } else if (host && port) {
    read_master(fmt::format("{}:{}", host, port), "MASTER_ADDR:MASTER_PORT", r);
    // torchrun's agent itself listens on that port.
    const char* taken = r.source == kTorchrun ? variable("TORCHELASTIC_USE_AGENT_STORE") : nullptr;
    if (taken && std::string_view(taken) == "True") r.port += r.port < 65535 ? 1 : -1;
  } else if (const char* nodes = r.source == kSlurm ? variable("SLURM_STEP_NODELIST") : nullptr) {
    listen_on_first(nodes, r);
  }
  if (r.local_size == 0 && (r.host == "127.0.0.1" || r.host == "localhost")) r.local_size = r.size;
  return r;
}

}  // namespace saccade
