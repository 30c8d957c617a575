// Several processes with a GPU each, over NCCL. The host only starts work and never waits: the sums of
// gradients run on a second stream beside that of the computation, in the order in which they were started.
#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/distributed/backends.h"
#include "core/runtime/cuda/libraries/nccl.h"
#include "core/runtime/cuda/rank_sum.h"
#include "core/tensor/error.h"
#include "core/tensor/execution.h"

namespace saccade {
namespace {

// A point in a stream; a `timed` one records when it was reached.
class NcclEvent {
 public:
  explicit NcclEvent(bool timed = false) {
    cuda::check(cudaEventCreateWithFlags(&event_, timed ? 0 : cudaEventDisableTiming), "cudaEventCreate");
  }
  ~NcclEvent() { (void)cudaEventDestroy(event_); }
  NcclEvent& operator=(NcclEvent&&) = delete;
  void record(cudaStream_t stream) const { cuda::check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  void hold_back(cudaStream_t stream) const {
    cuda::check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }
  // Returns 0 while the GPU has not reached it.
  double milliseconds_since(const NcclEvent& begin) const {
    float ms = 0;
    if (cudaEventElapsedTime(&ms, begin.event_, event_) == cudaSuccess) return static_cast<double>(ms);
    (void)cudaGetLastError();  // not ready: not an error, but CUDA records it as one
    return 0;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// The name of this process's GPU, unique in the world.
std::string gpu_name() {
  char bus[32] = "";
  cuda::check(cudaDeviceGetPCIBusId(bus, sizeof(bus), 0), "cudaDeviceGetPCIBusId");
  std::string machine;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
  return fmt::format("{} of {}", bus, machine);
}

class NcclGroup final : public ProcessGroup {
 public:
  NcclGroup(const Ranks& ranks, std::unique_ptr<RankChannel> channel)
      : ranks_(ranks), channel_(std::move(channel)) {
    fail_on_all_ranks(*channel_, [&] {
      cuda::stream();
      check_devices(*channel_, gpu_name());
      // Two, since layers and gradients may come in a different order on another rank.
      layers_ = connect();
      gradients_ = connect();
      cuda::check(cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking), "cudaStreamCreate");
      started_.emplace();
      done_.emplace();
      warm_up();
    });
    channel_->watch_for([this] {
      const std::string problem = cuda::nccl_problem(gradients_);
      return problem.empty() ? cuda::nccl_problem(layers_) : problem;
    });
  }
  // After an error the process ends without closing NCCL, which might wait for ranks that are gone.
  ~NcclGroup() override {
    channel_->watch_for({});
    if (!finished_) return;
    (void)cudaStreamSynchronize(cuda::stream());
    (void)cudaStreamSynchronize(beside_);
    (void)cuda::nccl().ncclCommDestroy(layers_);
    (void)cuda::nccl().ncclCommDestroy(gradients_);
  }

  const Ranks& ranks() const override { return ranks_; }
  std::vector<std::string> exchange(const std::string& part, bool to_all) override {
    return channel_->exchange(part, to_all);
  }

  void gather(const Tensor& part, Tensor& all) override {
    SACCADE_CHECK(part.device() == Device::kCuda && part.is_contiguous() && all.is_contiguous(),
                  "[nccl] gather of {} on {}", part.shape(), name_of(part.device()));
    ++cuda::launches;
    cuda::check(
        cuda::nccl().ncclAllGather(part.raw(), all.raw(), part.bytes(), ncclUint8, layers_, cuda::stream()),
        "ncclAllGather");
  }

  void start_sum(Tensor block) override {
    SACCADE_CHECK(block.dtype() == DType::kF32 && block.is_contiguous() && block.numel() % size() == 0 &&
                      block.device() == Device::kCuda,
                  "[nccl] sum of {} {}", block.dtype(), block.shape());
    const bool in_order = execution().deterministic;
    if (in_order) make_room(block.numel());
    Times& times = times_[turn_];
    if (times.used == times.sums.size()) times.sums.push_back(std::make_unique<Times::Span>());
    const Times::Span& span = *times.sums[times.used++];
    started_->record(cuda::stream());
    started_->hold_back(beside_);
    const cuda::StreamScope scope(beside_);
    span.begin.record(beside_);
    if (in_order)
      add_in_order(block);
    else
      add_in_any_order(block);
    span.end.record(beside_);
    open_.push_back(std::move(block));
  }

  // The stream waits, not the host.
  void wait() override {
    const Times::Span& span = times_[turn_].wait;
    span.begin.record(cuda::stream());
    done_->record(beside_);
    done_->hold_back(cuda::stream());
    span.end.record(cuda::stream());
    open_.clear();
  }

  // The times of the previous step, whose end the host has seen meanwhile.
  SumTimes take_times() override {
    turn_ = 1 - turn_;
    Times& before = times_[turn_];
    SumTimes out;
    if (before.used > 0) out.waited_ms = before.wait.end.milliseconds_since(before.wait.begin);
    for (size_t i = 0; i < before.used; ++i)
      out.busy_ms += before.sums[i]->end.milliseconds_since(before.sums[i]->begin);
    before.used = 0;
    return out;
  }

  void fail(const std::string& line, int status) override { channel_->fail(line, status); }
  void finish() override {
    channel_->finish();
    finished_ = true;
  }

 private:
  struct Times {
    struct Span {
      NcclEvent begin{true}, end{true};
    };
    std::vector<std::unique_ptr<Span>> sums;
    size_t used = 0;
    Span wait;
  };

  ncclComm_t connect() {
    ncclUniqueId id = {};
    if (rank() == 0) cuda::check(cuda::nccl().ncclGetUniqueId(&id), "ncclGetUniqueId");
    const std::string first =
        channel_->exchange(rank() == 0 ? std::string(id.internal, sizeof(id.internal)) : "")[0];
    SACCADE_CHECK(first.size() == sizeof(id.internal), "[nccl] an id of {} bytes", first.size());
    std::memcpy(id.internal, first.data(), first.size());
    ncclComm_t comm = nullptr;
    cuda::check(cuda::nccl().ncclCommInitRank(&comm, size(), id, rank()), "ncclCommInitRank");
    return comm;
  }

  // NCCL allocates memory for a connection when it is first used: this does it now, so that the trial batch
  // takes it into account.
  void warm_up() {
    Tensor block = Tensor::zeros({size()}, DType::kF32, Device::kCuda);
    Tensor all = Tensor::empty({size(), size()}, DType::kF32, Device::kCuda);
    make_room(block.numel());
    started_->record(cuda::stream());
    started_->hold_back(beside_);
    {
      const cuda::StreamScope scope(beside_);
      add_in_order(block);
      add_in_any_order(block);
    }
    done_->record(beside_);
    done_->hold_back(cuda::stream());
    gather(block, all);
    cuda::check(cudaStreamSynchronize(cuda::stream()), "cudaStreamSynchronize");
  }

  void make_room(int64_t elements) {
    if (received_.defined() && received_.numel() >= elements) return;
    if (!open_.empty()) {
      done_->record(beside_);
      done_->hold_back(cuda::stream());
    }
    received_ = Tensor();
    received_ = Tensor::empty({elements}, DType::kF32, Device::kCuda);
  }

  // Every rank owns a part of the block: it receives the others' versions of that part, adds them in the
  // order of the ranks and sends the sum to all.
  void add_in_order(Tensor& block) {
    const int64_t part = block.numel() / size();
    const auto count = static_cast<size_t>(part);
    auto *all = block.data<float>(), *received = received_.data<float>(), *own = all + rank() * part;
    const cuda::NcclApi& nccl = cuda::nccl();
    cuda::launches += 2;
    cuda::check(nccl.ncclGroupStart(), "ncclGroupStart");
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      cuda::check(nccl.ncclSend(all + r * part, count, ncclFloat32, r, gradients_, beside_), "ncclSend");
      cuda::check(nccl.ncclRecv(received + r * part, count, ncclFloat32, r, gradients_, beside_), "ncclRecv");
    }
    cuda::check(nccl.ncclGroupEnd(), "ncclGroupEnd");
    cuda::add_ranks(own, received, part, rank(), size());
    cuda::check(nccl.ncclAllGather(own, all, count, ncclFloat32, gradients_, beside_), "ncclAllGather");
  }

  void add_in_any_order(Tensor& block) {
    auto* all = block.data<float>();
    ++cuda::launches;
    cuda::check(cuda::nccl().ncclAllReduce(all, all, static_cast<size_t>(block.numel()), ncclFloat32, ncclSum,
                                           gradients_, beside_),
                "ncclAllReduce");
  }

  Ranks ranks_;
  std::unique_ptr<RankChannel> channel_;
  ncclComm_t layers_ = nullptr, gradients_ = nullptr;
  cudaStream_t beside_ = nullptr;
  std::optional<NcclEvent> started_, done_;
  Tensor received_;           // parts of the other ranks
  std::vector<Tensor> open_;  // sums that were started
  std::array<Times, 2> times_;
  size_t turn_ = 0;
  bool finished_ = false;
};

[[maybe_unused]] const bool registered = [] {
  open_nccl_group = [](const Ranks& ranks) -> std::unique_ptr<ProcessGroup> {
    std::unique_ptr<RankChannel> channel = open_channel(ranks);
    return std::make_unique<NcclGroup>(ranks, std::move(channel));
  };
  return true;
}();

}  // namespace
}  // namespace saccade
