// The processes that train together, and their communication. A program that trains alone has a group of one,
// which does nothing.
#pragma once

#include <string>
#include <vector>

#include "core/distributed/ranks.h"
#include "core/tensor/tensor.h"

namespace saccade {

// All processes of a group call the same functions in the same order, within each lane (kGradients, kLayers
// and exchange()). Sums over ranks are added in the order of the ranks, so a sum has the same bits on all
// ranks and in every run.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual const Ranks& ranks() const = 0;
  int rank() const { return ranks().rank; }
  int size() const { return ranks().size; }
  bool alone() const { return size() == 1; }
  // Whether this rank writes the files and prints.
  bool is_first() const { return rank() == 0; }

  // Gathers every rank's value, ordered by rank, on all ranks, or only on rank 0 if to_all is false (the
  // others then get nothing).
  virtual std::vector<std::string> exchange(const std::string& part, bool to_all = true) = 0;

  // Adds up the numbers of all ranks, of which each rank has equally many, in the order of the ranks; on all
  // ranks, or only on rank 0 if to_all is false (the others then keep their own).
  void add_up(std::vector<double>& numbers, bool to_all = true);

  // all [size, ...] = the parts (contiguous) of all ranks, on the group's device, complete for later work of
  // this thread.
  virtual void gather(const Tensor& part, Tensor& all) = 0;

  // Starts to replace block (f32, contiguous, its number of elements a multiple of size()) by its sum over
  // all ranks. This thread continues meanwhile, but may not touch the block before wait().
  virtual void start_sum(Tensor block) = 0;
  // Waits for all sums that were started.
  virtual void wait() = 0;
  // Times since the last call: how long sums were under way, and how long wait() took.
  struct SumTimes {
    double busy_ms = 0, waited_ms = 0;
  };
  virtual SumTimes take_times() { return {}; }

  // Ends the job on all ranks because of an error on this one (RankChannel::fail).
  virtual void fail(const std::string& line, int status) = 0;
  // The last call, after all work is done.
  virtual void finish() = 0;
};

// This program's group: the one that join_processes() made, or else a group of one.
ProcessGroup& process_group();

// Joins the group that `ranks` describes: over MPI for the CPU, over NCCL for GPUs. process_group() returns
// it until leave_processes(). Returns a line that describes it. Throws Error or InputError.
std::string join_processes(const Ranks& ranks, Device device);
void leave_processes();

// process_group() is a group of one within the block.
class AloneScope {
 public:
  AloneScope();
  ~AloneScope();
  AloneScope& operator=(AloneScope&&) = delete;
};

}  // namespace saccade
