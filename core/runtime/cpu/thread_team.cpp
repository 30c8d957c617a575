#include "core/runtime/cpu/thread_team.h"

#include <linux/futex.h>
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

// Nearly all gaps between the loops of a training step are shorter. A thread that waits for one which does
// not run, for lack of a processor, yields its own after this time.
constexpr std::chrono::microseconds kSpin{200};

// A number on which threads wait. (std::atomic's own wait yields before it sleeps, and a thread that yields
// alongside a program that never does is scheduled late.)
class Signal {
 public:
  explicit Signal(uint32_t value) : value_(value) {}
  uint32_t get() const { return value_; }
  void set(uint32_t value) {
    value_ = value;
    wake();
  }
  // Changes the value from `from` to `to` and returns true if it was `from`.
  bool take(uint32_t from, uint32_t to) { return value_.compare_exchange_strong(from, to); }
  // Subtracts 1; at 0 the waiting threads are woken.
  void count_down() {
    if (--value_ == 0) wake();
  }

  // Waits until the number is no longer `old`.
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

// The position of the calling thread in the loop that it runs.
struct Place {
  class ThreadTeam* team = nullptr;
  int index = 0, size = 1;
};
thread_local Place loop_place;

thread_local bool independent_loops = false;

// The work of a team's threads: an OpenMP loop, which every place runs once, or parts. The threads of a loop
// may wait for each other, some of oneDNN's without ever yielding the processor, so all begin together.
// Independent parts are taken by whichever thread is free.
struct Job {
  void (*loop)(void*) = nullptr;
  void (*part)(void*, int) = nullptr;
  void* data = nullptr;
  int size = 1;
  bool independent = true;
};

// Asks the scheduler for short slices (Linux 6.12; older ones ignore it): the same share of the processor as
// before, but without delay when a thread wakes up. Otherwise, alongside a program that never sleeps, a loop
// would wait several milliseconds for the last of its threads. Threads started later inherit it.
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

// One thread's helpers. They are started when a loop first needs them and then wait for the next one.
class ThreadTeam {
 public:
  ThreadTeam() { ask_for_short_slices(); }
  ~ThreadTeam() {
    if (forks != forks_) {
      for (Member& member : members_) static_cast<void>(member.thread.release());
      return;
    }
    for (Member& member : members_) member.order.set(kStop);
    for (Member& member : members_) member.thread->join();
  }

  bool survives_fork() const { return forks == forks_; }

  void grow(int size) {
    if (static_cast<int>(members_.size()) >= size - 1) return;
    sigset_t all, before;  // helpers block all signals, which are for the threads that wait for them
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
      fail("only {} of {} threads can be started ({}); use fewer threads", members_.size() + 1, size,
           problem);
  }

  // Runs a job on `job.size` started threads. The caller takes the parts that no helper has begun.
  void run(const Job& job) {
    job_ = job;
    busy_.set(static_cast<uint32_t>(job.size - 1));
    for (int i = 1; i < job.size; ++i) helper(i).order.set(kRun);
    work(0);
    if (job.independent)
      for (int i = 1; i < job.size; ++i)
        if (helper(i).order.take(kRun, kWait)) {
          work(i);
          busy_.count_down();
        }
    while (uint32_t busy = busy_.get()) busy_.wait_while(busy);
  }

  // Waits until all threads of the loop have arrived.
  void barrier() {
    if (job_.independent) {
      std::fputs("error: a loop that was declared independent waits for its other threads\n", stderr);
      std::abort();
    }
    const uint32_t round = round_.get();
    if (++arrived_ == job_.size) {
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

  Member& helper(int index) { return members_[static_cast<size_t>(index - 1)]; }

  void work(int index) {
    loop_place = {this, index, job_.size};
    if (!job_.independent) barrier();
    if (job_.part)
      job_.part(job_.data, index);
    else
      job_.loop(job_.data);
    loop_place = {};
  }

  void serve(Member& member, int index) {
    for (;;) {
      member.order.wait_while(kWait);
      if (member.order.get() == kStop) return;
      if (!member.order.take(kRun, kWait)) continue;
      work(index);
      busy_.count_down();
    }
  }

  const unsigned forks_ = forks;
  Job job_;
  Signal busy_{0}, round_{0};
  std::atomic<int> arrived_{0};
  std::deque<Member> members_;  // a deque, so that they keep their addresses
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

void run_job(const Job& job) {
  ThreadTeam& team = my_team();
  try {
    team.grow(job.size);
  } catch (const Error& e) {  // exceptions cannot pass through compiled loops
    std::fprintf(stderr, "error: %s\n", e.what());
    std::_Exit(1);
  }
  team.run(job);
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

bool in_parallel() { return loop_place.team != nullptr; }

int loop_threads() { return in_parallel() ? 1 : thread_count(); }

void run_parts(int parts, void (*part)(void*, int), void* data) {
  if (parts > 1 && !in_parallel()) return run_job({.part = part, .data = data, .size = parts});
  for (int i = 0; i < parts; ++i) part(data, i);
}

IndependentLoops::IndependentLoops() { independent_loops = true; }
IndependentLoops::~IndependentLoops() { independent_loops = false; }

}  // namespace saccade

// The part of OpenMP that our loops and oneDNN need, with libgomp's calling convention. A loop inside a loop
// runs on the thread that meets it. In a program oneDNN must find these symbols; libsaccade hides them
// (train/library/exports.map).
#pragma GCC visibility push(default)
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
  run_job({.loop = body, .data = data, .size = size, .independent = independent_loops});
}

void GOMP_barrier() {
  if (saccade::loop_place.size > 1) saccade::loop_place.team->barrier();
}

int omp_get_max_threads() noexcept { return saccade::loop_threads(); }
int omp_get_num_threads() noexcept { return saccade::loop_place.size; }
int omp_get_thread_num() noexcept { return saccade::loop_place.index; }
int omp_in_parallel() noexcept { return saccade::loop_place.team != nullptr; }
void omp_set_num_threads(int count) noexcept { saccade::set_thread_count(count); }
}
#pragma GCC visibility pop
