// The processes that train together, and what they compute with each other. A program that trains alone has a
// group of one, which does nothing.
#pragma once

#include <string>
#include <vector>

#include "core/distributed/ranks.h"
#include "core/tensor/tensor.h"

namespace saccade {

// All processes of a group call the same functions in the same order: those of a lane (kGradients, kLayers
// and exchange()) among themselves. What ranks add up is added in the order of the ranks, so the sum has the
// same bits on all and in every run.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual const Ranks& ranks() const = 0;
  int rank() const { return ranks().rank; }
  int size() const { return ranks().size; }
  bool alone() const { return size() == 1; }
  // Writes the files and prints.
  bool is_first() const { return rank() == 0; }

  // What every rank gives, in order of the ranks; on all ranks, or with to_all false on rank 0 alone (the
  // others have none).
  virtual std::vector<std::string> exchange(const std::string& part, bool to_all = true) = 0;

  // The numbers of all ranks, of equally many each, added in the order of the ranks; on all ranks, or with
  // to_all false on rank 0 alone (the others keep theirs).
  void add_up(std::vector<double>& numbers, bool to_all = true);

  // all [size, ...] = the parts (contiguous) of all ranks, on the group's device;
  // done for whoever reads it on this thread.
  virtual void gather(const Tensor& part, Tensor& all) = 0;

  // block (f32, contiguous, its elements a multiple of size()) becomes the sum of all ranks' while this
  // thread works on: it may not touch the block before wait().
  virtual void start_sum(Tensor block) = 0;
  // Until all sums that were started are there.
  virtual void wait() = 0;
  // Since the last call: for how long sums were on their way, and how long wait() took.
  struct SumTimes {
    double busy_ms = 0, waited_ms = 0;
  };
  virtual SumTimes take_times() { return {}; }

  // Ends the job on all ranks because of an error of this one (RankChannel::fail).
  virtual void fail(const std::string& line, int status) = 0;
  // The last call, when all is done.
  virtual void finish() = 0;
};

// That of this program: what join_processes() made, else a group of one.
ProcessGroup& process_group();

// Joins the group that `ranks` describes: over MPI for the CPU, over NCCL for GPUs; process_group() is it
// until leave_processes(). One line about it is returned. Throws Error or InputError.
std::string join_processes(const Ranks& ranks, Device device);
void leave_processes();

// Within the block, process_group() is a group of one.
class AloneScope {
 public:
  AloneScope();
  ~AloneScope();
  AloneScope& operator=(AloneScope&&) = delete;
};

}  // namespace saccade
