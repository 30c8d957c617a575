#include "core/runtime/cpu/thread_team.h"

#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <thread>

#include "core/runtime/cpu/processors.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

// Nearly all gaps between the loops of a training step are shorter. A thread that waits for one which does not run, for lack of
// a processor, gives up its own after this.
constexpr std::chrono::microseconds kSpin{200};

// A number that threads wait on. (std::atomic's own wait yields before it sleeps, and who yields beside a program that never
// does is served late.)
class Signal {
 public:
  explicit Signal(uint32_t value) : value_(value) {}
  uint32_t get() const { return value_; }
  void set(uint32_t value) {
    value_ = value;
    wake();
  }
  // Takes 1 off; at 0 the waiting threads are woken.
  void count_down() {
    if (--value_ == 0) wake();
  }

  // Returns when the number is no longer `old`.
  void wait_while(uint32_t old) {
    if (value_.load(std::memory_order_acquire) != old) return;
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + kSpin;
    do {
      for (int i = 0; i < 32; ++i) {
        if (value_.load(std::memory_order_acquire) != old) return;
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
      }
    } while (Clock::now() < end);
    ++sleepers_;
    while (value_ == old) syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
    --sleepers_;
  }

 private:
  void wake() {
    if (sleepers_ > 0) syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

  std::atomic<uint32_t> value_;
  std::atomic<int> sleepers_{0};
};

// The place of the calling thread in the loop that it runs.
struct Place {
  class ThreadTeam* team = nullptr;
  int index = 0, size = 1;
};
thread_local Place loop_place;

// Asks the scheduler for short slices (Linux 6.12; others take no notice): as much of the processor as before, but at once
// when a thread that has slept is wanted. Beside a program that never sleeps, a loop would otherwise wait several milliseconds
// for the last of its threads. Threads started later inherit it.
void ask_for_short_slices() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{};
  const auto size = static_cast<uint32_t>(sizeof attributes);
  if (syscall(SYS_sched_getattr, 0, &attributes, size, 0) != 0 || attributes.policy != SCHED_OTHER) return;
  attributes.runtime = 100'000;  // nanoseconds
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

std::atomic<unsigned> forks{0};  // a child of fork has its parent's objects but not its threads

// One thread's helpers. They are started when a loop first wants them and then wait for the next.
class ThreadTeam {
 public:
  ThreadTeam() { ask_for_short_slices(); }
  ~ThreadTeam() {
    if (forks != forks_) {
      for (Member& member : members_) member.thread.release();
      return;
    }
    for (Member& member : members_) member.order.set(kStop);
    for (Member& member : members_) member.thread->join();
  }

  bool survives_fork() const { return forks == forks_; }

  void grow(int size) {
    if (static_cast<int>(members_.size()) >= size - 1) return;
    sigset_t all, before;  // signals are for the threads that wait for them
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::string problem;
    while (problem.empty() && static_cast<int>(members_.size()) < size - 1) {
      Member& member = members_.emplace_back();
      const int index = static_cast<int>(members_.size());
      try {
        member.thread = std::make_unique<std::thread>([this, &member, index] { serve(member, index); });
      } catch (const std::exception& e) {
        members_.pop_back();
        problem = e.what();
      }
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!problem.empty())
      fail("only {} of {} threads can be started ({}); --threads asks for fewer", members_.size() + 1, size,
           problem);
  }

  // body(data) on `size` threads that have been started.
  void run(void (*body)(void*), void* data, int size) {
    body_ = body;
    data_ = data;
    size_ = size;
    busy_.set(static_cast<uint32_t>(size - 1));
    for (int i = 0; i < size - 1; ++i) members_[static_cast<size_t>(i)].order.set(kRun);
    loop_place = {this, 0, size};
    body(data);
    loop_place = {};
    while (uint32_t busy = busy_.get()) busy_.wait_while(busy);
  }

  // Until all threads of the loop are here.
  void barrier() {
    const uint32_t round = round_.get();
    if (++arrived_ == size_) {
      arrived_ = 0;
      round_.set(round + 1);
    } else {
      round_.wait_while(round);
    }
  }

 private:
  enum Order : uint32_t { kWait, kRun, kStop };
  struct alignas(64) Member {
    Signal order{kWait};
    std::unique_ptr<std::thread> thread;
  };

  void serve(Member& member, int index) {
    for (;;) {
      member.order.wait_while(kWait);
      if (member.order.get() == kStop) return;
      member.order.set(kWait);
      loop_place = {this, index, size_};
      body_(data_);
      loop_place = {};
      busy_.count_down();
    }
  }

  const unsigned forks_ = forks;
  void (*body_)(void*) = nullptr;
  void* data_ = nullptr;
  int size_ = 1;
  Signal busy_{0}, round_{0};
  std::atomic<int> arrived_{0};
  std::deque<Member> members_;  // which stay where they are
};

ThreadTeam& my_team() {
  [[maybe_unused]] static const int counted = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  thread_local std::unique_ptr<ThreadTeam> team;
  if (!team || !team->survives_fork()) team = std::make_unique<ThreadTeam>();
  return *team;
}

int default_threads() {
  int count = 0;
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text && std::from_chars(text, text + std::strlen(text), count).ec == std::errc() && count > 0)
    return count;
  return available_processors();
}

std::atomic<int>& thread_setting() {
  static std::atomic<int> count{default_threads()};
  return count;
}

}  // namespace

int max_threads() {
  static const int most = std::max(64, 8 * static_cast<int>(std::thread::hardware_concurrency()));
  return most;
}

int thread_count() { return thread_setting(); }
void set_thread_count(int count) { thread_setting() = std::max(count, 1); }

void start_threads() {
  const int count = thread_count();
  if (count > max_threads())
    fail_input("OMP_NUM_THREADS: {} threads, expected at most {} on this machine", count, max_threads());
  my_team().grow(count);
}

}  // namespace saccade

// OpenMP as far as our loops and oneDNN need it, with libgomp's calling convention. A loop inside a loop runs on the thread
// that meets it.
extern "C" {

void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned) {
  using namespace saccade;
  const int size = std::min(threads ? static_cast<int>(threads) : thread_count(), max_threads());
  const Place outer = loop_place;
  if (size == 1 || outer.team) {
    loop_place = {outer.team, 0, 1};
    body(data);
    loop_place = outer;
    return;
  }
  ThreadTeam& team = my_team();
  try {
    team.grow(size);
  } catch (const Error& e) {  // compiled loops let no exception pass
    std::fprintf(stderr, "error: %s\n", e.what());
    std::_Exit(1);
  }
  team.run(body, data, size);
}

void GOMP_barrier() {
  if (saccade::loop_place.size > 1) saccade::loop_place.team->barrier();
}

int omp_get_max_threads() noexcept { return saccade::thread_count(); }
int omp_get_num_threads() noexcept { return saccade::loop_place.size; }
int omp_get_thread_num() noexcept { return saccade::loop_place.index; }
int omp_in_parallel() noexcept { return saccade::loop_place.team != nullptr; }
void omp_set_num_threads(int count) noexcept { saccade::set_thread_count(count); }
}
