// Open MPI, opened when a launcher has started this process as one of several: the program is not linked
// against it. The binary interface, which libmpi.so.40 (Open MPI 3 to 5) keeps, is declared here, so that no
// headers are needed.
#include <dlfcn.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "core/distributed/backends.h"
#include "core/distributed/rank_channel.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr const char* kLibrary = "libmpi.so.40";
constexpr int kThreadMultiple = 3;

struct OpenMpi {
  using Handle = void*;  // a communicator, a datatype or a request: pointers in Open MPI
  int (*init)(int*, char***, int, int*);
  int (*finalize)();
  int (*comm_rank)(Handle, int*);
  int (*comm_size)(Handle, int*);
  int (*broadcast)(void*, int, Handle, int, Handle);
  int (*isend)(const void*, int, Handle, int, int, Handle, Handle*);
  int (*irecv)(void*, int, Handle, int, int, Handle, Handle*);
  int (*test_all)(int, Handle*, int*, void*);
  Handle world, bytes;

  OpenMpi() {
    // Its plug-ins look for its symbols among the global ones.
    void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
      fail(
          "several processes on CPUs, or under mpirun, need Open MPI, which cannot be loaded ({}): install "
          "it (apt-get install openmpi-bin)",
          ::dlerror());
    auto find = [&](const char* name) {
      void* symbol = ::dlsym(library, name);
      if (!symbol) fail("{} has no {}, expected Open MPI 3 or newer", kLibrary, name);
      return symbol;
    };
    auto set = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find(name));
    };
    set(init, "MPI_Init_thread");
    set(finalize, "MPI_Finalize");
    set(comm_rank, "MPI_Comm_rank");
    set(comm_size, "MPI_Comm_size");
    set(broadcast, "MPI_Bcast");
    set(isend, "MPI_Isend");
    set(irecv, "MPI_Irecv");
    set(test_all, "MPI_Testall");
    world = find("ompi_mpi_comm_world");
    bytes = find("ompi_mpi_byte");
  }

  // Throws InputError unless its launcher says the same ranks. Returns the thread level that it grants.
  int start(const Ranks& ranks) const {
    int given = 0, rank = -1, size = -1;
    if (init(nullptr, nullptr, kThreadMultiple, &given) != 0) fail("MPI_Init_thread failed");
    comm_rank(world, &rank);
    comm_size(world, &size);
    if (rank != ranks.rank || size != ranks.size)
      fail_input(
          "{}, but Open MPI says rank {} of {}: start processes on CPUs with mpirun, with srun and Open MPI, "
          "or with --processes",
          ranks.to_string(), rank, size);
    return given;
  }

  // Rank 0 listens at a free address and tells it to the others.
  std::unique_ptr<RankChannel> channel(const Ranks& ranks) const {
    struct {
      char host[256];
      int port;
      uint64_t token;
    } place = {};
    std::unique_ptr<RankListener> listener;
    const bool local = ranks.local_size == ranks.size;
    if (ranks.rank == 0) {
      listener = std::make_unique<RankListener>(0, local);
      ::gethostname(place.host, sizeof(place.host) - 1);
      if (local) std::strcpy(place.host, "127.0.0.1");
      place.port = listener->port();
      std::random_device random;
      place.token = uint64_t{random()} << 32 | random();
    }
    broadcast(&place, sizeof(place), bytes, 0, world);
    return std::make_unique<RankChannel>(
        RankChannel::Options{ranks.rank, ranks.size, place.host, place.port, place.token, rank_timeout()},
        listener.get());
  }
};

// Messages that belong together. MPI 3 limits a message to INT_MAX bytes, which suffices.
class Transfer {
 public:
  // Before it sleeps, it waits in a loop for this long, in which other threads may use the core.
  Transfer(const OpenMpi& mpi, int tag, std::chrono::microseconds loop) : mpi_(mpi), tag_(tag), loop_(loop) {}
  void send(int rank, const void* data, int64_t bytes) {
    mpi_.isend(data, count(bytes), mpi_.bytes, rank, tag_, mpi_.world, &requests_.emplace_back(nullptr));
  }
  void receive(int rank, void* data, int64_t bytes) {
    mpi_.irecv(data, count(bytes), mpi_.bytes, rank, tag_, mpi_.world, &requests_.emplace_back(nullptr));
  }
  // Used instead of MPI's own wait, which would spin without end.
  void wait() {
    const auto start = std::chrono::steady_clock::now();
    for (int done = 0;;) {
      mpi_.test_all(static_cast<int>(requests_.size()), requests_.data(), &done, nullptr);
      if (done) break;
      const bool soon = std::chrono::steady_clock::now() - start < loop_;
      soon ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    requests_.clear();
  }

 private:
  static int count(int64_t bytes) {
    SACCADE_CHECK(bytes <= INT32_MAX, "[mpi] a message of {} bytes", bytes);
    return static_cast<int>(bytes);
  }
  const OpenMpi& mpi_;
  int tag_;
  std::chrono::microseconds loop_;
  std::vector<OpenMpi::Handle> requests_;
};

enum Tag { kLayerTag = 1, kGradientTag = 2 };

class MpiGroup final : public ProcessGroup {
 public:
  explicit MpiGroup(const Ranks& ranks) : ranks_(ranks) {
    if (mpi_.start(ranks) < kThreadMultiple)
      saccade::fail("this Open MPI was built without MPI_THREAD_MULTIPLE");
    channel_ = mpi_.channel(ranks);
    fail_on_all_ranks(*channel_, [&] { check_devices(*channel_, "the CPU"); });
    thread_ = std::thread([this] { work(); });
  }
  ~MpiGroup() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
    if (finished_) mpi_.finalize();
  }

  const Ranks& ranks() const override { return ranks_; }
  std::vector<std::string> exchange(const std::string& part, bool to_all) override {
    return channel_->exchange(part, to_all);
  }

  void gather(const Tensor& part, Tensor& all) override {
    const int64_t bytes = static_cast<int64_t>(part.bytes());
    auto* to = static_cast<char*>(all.raw());
    // The computation needs it and the others arrive within a moment; waking up would take as long.
    Transfer transfer(mpi_, kLayerTag, std::chrono::microseconds(2000));
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      transfer.receive(r, to + r * bytes, bytes);
      transfer.send(r, part.raw(), bytes);
    }
    std::memcpy(to + rank() * bytes, part.raw(), static_cast<size_t>(bytes));
    transfer.wait();
  }

  void start_sum(Tensor block) override {
    SACCADE_CHECK(block.dtype() == DType::kF32 && block.is_contiguous() && block.numel() % size() == 0,
                  "[mpi] sum of {} {}", block.dtype(), block.shape());
    {
      std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(block));
      ++open_;
    }
    changed_.notify_all();
  }

  void wait() override {
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ == 0; });
    times_.waited_ms += milliseconds_since(start);
  }

  SumTimes take_times() override {
    std::lock_guard lock(mutex_);
    return std::exchange(times_, {});
  }

  void fail(const std::string& line, int status) override { channel_->fail(line, status); }
  void finish() override {
    channel_->finish();
    finished_ = true;
  }

 private:
  static double milliseconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      const Tensor block = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      const auto start = std::chrono::steady_clock::now();
      add_ranks(block);
      lock.lock();
      times_.busy_ms += milliseconds_since(start);
      if (--open_ == 0) changed_.notify_all();
    }
  }

  // Every rank owns a part of the block: it receives the others' versions of that part, adds them in the
  // order of the ranks and sends the sum to all.
  void add_ranks(const Tensor& block) {
    const int64_t part = block.numel() / size(), bytes = part * 4;
    auto* all = static_cast<float*>(block.raw());
    received_.resize(static_cast<size_t>(part * size()));
    Transfer transfer(mpi_, kGradientTag, std::chrono::microseconds(50));  // the computation needs the core
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      transfer.receive(r, received_.data() + r * part, bytes);
      transfer.send(r, all + r * part, bytes);
    }
    transfer.wait();
    float* own = all + rank() * part;
    auto part_of = [&](int r) { return r == rank() ? own : received_.data() + r * part; };
    // The sum is formed in the place of rank 0's term, which is `own` only on rank 0.
    float* sum = part_of(0);
    for (int r = 1; r < size(); ++r) {
      const float* term = part_of(r);
      for (int64_t i = 0; i < part; ++i) sum[i] += term[i];
    }
    if (sum != own) std::memcpy(own, sum, static_cast<size_t>(bytes));
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      transfer.receive(r, all + r * part, bytes);
      transfer.send(r, own, bytes);
    }
    transfer.wait();
  }

  Ranks ranks_;
  OpenMpi mpi_;
  std::unique_ptr<RankChannel> channel_;
  std::vector<float> received_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Tensor> waiting_;
  int64_t open_ = 0;  // sums that were started and are not complete
  SumTimes times_;
  bool stopping_ = false, finished_ = false;
  std::thread thread_;
};

}  // namespace

double rank_timeout() {
  const char* text = std::getenv("SACCADE_RANK_TIMEOUT");
  if (!text) return 20;
  const std::string_view word = text;
  int seconds = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), seconds);
  if (error != std::errc() || end != word.data() + word.size() || seconds < 3 || seconds > 86400)
    fail_input("SACCADE_RANK_TIMEOUT: \"{}\", expected a whole number of seconds from 3 to 86400",
               shortened(word));
  return seconds;
}

std::unique_ptr<RankChannel> open_channel_over_mpi(const Ranks& ranks) {
  const OpenMpi mpi;
  mpi.start(ranks);
  std::unique_ptr<RankChannel> channel = mpi.channel(ranks);
  mpi.finalize();
  return channel;
}

std::unique_ptr<ProcessGroup> open_mpi_group(const Ranks& ranks) { return std::make_unique<MpiGroup>(ranks); }

}  // namespace saccade
