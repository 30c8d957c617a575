#include "tests/cuda_emulator/emulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "core/tensor/philox.h"
#include "tests/cuda_emulator/block_order.h"
#include "tests/cuda_emulator/fiber.h"
#include "tests/cuda_emulator/launch_log.h"
#include "tests/cuda_emulator/memory.h"

namespace saccade::emulator {
namespace {

constexpr unsigned kLanes = 32;
constexpr size_t kSharedBytes = 99 << 10;   // the most that a block may have on every GPU since sm_80
constexpr size_t kUnaskedBytes = 48 << 10;  // the most, with static arrays, of a launch that asks for none
// Bytes after each array in shared memory that belong to none, and the room for all of them.
constexpr size_t kSharedGap = 16, kSharedGaps = 8 << 10;
constexpr unsigned kMaxThreads = 1024, kMaxThreadsZ = 64;  // of a block, and along its z
constexpr unsigned kMaxBlocks = 0x7FFFFFFF, kMaxBlocksYZ = 65535;

enum class Wait { kNone, kBlock, kWarp };

struct Thread {
  ThreadPosition position;
  Observer observer;
  bool done = false;
  Wait wait = Wait::kNone;
  unsigned mask = 0;      // of the warp barrier it waits at
  bool ordering = false;  // whether that barrier orders accesses of memory
  const char* file = nullptr;
  int line = 0;
  Fiber* fiber = nullptr;  // while waiting
  unsigned exchanges = 0;
  uint64_t accesses = 0;  // of memory
};

// The values that the lanes of a warp exchange, in two slots, since a lane may run one exchange ahead.
struct Warp {
  std::array<std::array<LaneWords, kLanes>, 2> words;
};

class Machine {
 public:
  void launch(const std::string& name, Index3 grid, Index3 block, size_t shared_bytes,
              const std::function<void()>& body);

  void report(std::string what) {
    {
      // Freed here: a fiber that is never resumed frees nothing.
      const std::string text = std::move(what);
      if (fault_.empty()) {
        fault_ = current_ ? fmt::format("{}, block {}, thread {}: {}", kernel_, current_->observer.block,
                                        current_->observer.thread, text)
                          : text;
      }
    }
    if (Fiber::inside()) Fiber::yield();  // never resumed
  }
  void wait(Wait kind, unsigned mask, bool ordering, const char* file, int line) {
    Thread& t = *current_;
    t.wait = kind;
    t.mask = mask;
    t.ordering = ordering;
    t.file = file;
    t.line = line;
    t.fiber = worker_;
    Fiber::yield();
  }
  Thread& current() { return *current_; }
  bool running() const { return current_ != nullptr; }
  Warp& warp() { return warps_[current_->observer.thread / kLanes]; }

  void* shared_array(const void* key, size_t bytes) {
    for (const auto& [known, at] : shared_arrays_)
      if (known == key) return shared_ + at;
    size_t at = add_shared(bytes);
    shared_arrays_.emplace_back(key, at);
    return shared_ + at;
  }
  void* dynamic_shared() { return shared_; }

  std::string fault_;
  uint64_t seed_ = 1;
  uint32_t launches_ = 0;

 private:
  void run_block(uint32_t index, Index3 block_index, Index3 grid, Index3 block, size_t shared_bytes,
                 const std::function<void()>& body);
  void run_threads(const std::function<void()>& body);
  // Takes `bytes` of the block's shared memory and returns where they begin.
  size_t add_shared(size_t bytes);
  // Releases the threads whose barrier is complete. Returns false if none can continue.
  bool release(std::vector<Fiber*>& ready);
  void report_stuck();

  std::string kernel_;
  uint64_t most_accesses_ = 0;  // of a thread of this launch
  Thread* current_ = nullptr;
  Fiber* worker_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<uint32_t> order_;
  size_t next_ = 0;
  std::vector<Warp> warps_;
  char* shared_ = nullptr;
  size_t shared_top_ = 0, shared_used_ = 0;  // with and without gaps
  size_t shared_limit_ = 0;
  std::vector<std::pair<const void*, size_t>> shared_arrays_;
};

Machine& machine() {
  static auto* machine = new Machine;
  return *machine;
}

void shuffle(std::vector<uint32_t>& order, Rng& rng) {
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.next() % i]);
}

std::vector<uint32_t> shuffled(size_t n, Rng& rng) {
  std::vector<uint32_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = static_cast<uint32_t>(i);
  shuffle(order, rng);
  return order;
}

void Machine::launch(const std::string& name, Index3 grid, Index3 block, size_t shared_bytes,
                     const std::function<void()>& body) {
  if (!fault_.empty()) return;
  launch_log().add(name);
  const uint64_t threads = uint64_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z;
  const bool is_of_library = name == "cublasLtMatmul" || name == "cudnnBackendExecute";
  if (dry() && (!runs_small_launches() || threads >= kFewThreads || is_of_library)) return;
  kernel_ = name;
  most_accesses_ = 0;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x * block.y * block.z == 0 ||
      block.x * block.y * block.z > kMaxThreads || block.z > kMaxThreadsZ || grid.x > kMaxBlocks ||
      grid.y > kMaxBlocksYZ || grid.z > kMaxBlocksYZ || shared_bytes > kSharedBytes) {
    fault_ = fmt::format("{}: a launch of {}x{}x{} blocks of {}x{}x{} threads with {} bytes of shared memory",
                         name, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes);
    return;
  }
  if (!shared_) {
    shared_top_ = kSharedBytes + kSharedGaps;
    shared_ = static_cast<char*>(memory().allocate(shared_top_));
  }
  ++launches_;
  block_order().start_launch();
  Rng rng(seed_, launches_);
  memory().open();
  for (uint32_t b : shuffled(size_t{grid.x} * grid.y * grid.z, rng)) {
    order_ = shuffled(block.x * block.y * block.z, rng);
    run_block(b, {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y}, grid, block, shared_bytes, body);
    if (!fault_.empty()) break;
  }
  current_ = nullptr;
  memory().clear_written();
  memory().close();
  if (!is_of_library) launch_log().add_accesses(name, threads, most_accesses_);
}

void Machine::run_block(uint32_t index, Index3 block_index, Index3 grid, Index3 block, size_t shared_bytes,
                        const std::function<void()>& body) {
  unsigned count = block.x * block.y * block.z;
  threads_.assign(count, {});
  warps_.resize((count + kLanes - 1) / kLanes);
  shared_arrays_.clear();
  memory().withdraw(shared_, shared_top_);
  shared_top_ = shared_used_ = 0;
  shared_limit_ = shared_bytes > kUnaskedBytes ? kSharedBytes : kUnaskedBytes;
  if (shared_bytes > 0) add_shared(shared_bytes);
  for (unsigned t = 0; t < count; ++t) {
    threads_[t].position = {
        {t % block.x, t / block.x % block.y, t / block.x / block.y}, block_index, block, grid};
    threads_[t].observer = {launches_, index, t, 0, 0, 0};
  }
  next_ = 0;
  block_order().start_block(count);
  run_threads(body);
}

size_t Machine::add_shared(size_t bytes) {
  constexpr size_t kAlignment = 16;
  size_t at = shared_top_, size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  shared_used_ += size;
  shared_top_ += size + kSharedGap;
  if (shared_used_ > shared_limit_ || shared_top_ > kSharedBytes + kSharedGaps) {
    report(fmt::format("{} bytes of shared memory, a block has at most {}", shared_used_, shared_limit_));
    return 0;
  }
  memory().forget(shared_ + at, bytes);
  return at;
}

void Machine::run_threads(const std::function<void()>& body) {
  std::vector<std::unique_ptr<Fiber>> fibers;
  // One fiber runs thread after thread until one of them waits; that one keeps the fiber and another is
  // taken.
  auto work = [&] {
    while (next_ < order_.size()) {
      current_ = &threads_[order_[next_++]];
      body();
      current_->done = true;
    }
  };
  std::vector<Fiber*> ready;
  while (fault_.empty()) {
    if (ready.empty() && next_ < order_.size()) {
      fibers.push_back(std::make_unique<Fiber>(work));
      ready.push_back(fibers.back().get());
    }
    if (ready.empty() && !release(ready)) break;
    worker_ = ready.back();
    ready.pop_back();
    for (Thread& t : threads_)
      if (t.fiber == worker_) {
        current_ = &t;
        t.fiber = nullptr;
      }
    worker_->resume();
  }
  for (auto& fiber : fibers) fiber->abandon();
  for (const Thread& t : threads_) most_accesses_ = std::max(most_accesses_, t.accesses);
}

bool Machine::release(std::vector<Fiber*>& ready) {
  size_t done = 0, at_block = 0;
  for (const Thread& t : threads_) done += t.done, at_block += t.wait == Wait::kBlock;
  if (done == threads_.size()) return false;
  auto go = [&](Thread& t) {
    t.wait = Wait::kNone;
    ready.push_back(t.fiber);
  };
  if (at_block == threads_.size()) {
    const Thread& first = threads_.front();
    for (Thread& t : threads_) {
      if (t.file != first.file || t.line != first.line) {
        current_ = &t;
        report(fmt::format("__syncthreads at {}:{}, while thread 0 is at {}:{}", t.file, t.line, first.file,
                           first.line));
        return false;
      }
      ++t.observer.block_epoch;
      go(t);
    }
  } else {
    for (size_t base = 0; base < threads_.size(); base += kLanes) {
      size_t lanes = std::min<size_t>(kLanes, threads_.size() - base);
      for (size_t lane = 0; lane < lanes; ++lane) {
        Thread& t = threads_[base + lane];
        if (t.wait != Wait::kWarp) continue;
        bool complete = true;
        for (size_t other = 0; other < kLanes; ++other) {
          if (!(t.mask >> other & 1)) continue;
          complete = complete && other < lanes && threads_[base + other].wait == Wait::kWarp &&
                     threads_[base + other].mask == t.mask && threads_[base + other].line == t.line;
        }
        if (!complete) continue;
        unsigned mask = t.mask;
        for (size_t other = 0; other < lanes; ++other) {
          if (!(mask >> other & 1)) continue;
          if (t.ordering) ++threads_[base + other].observer.warp_epoch;
          go(threads_[base + other]);
        }
      }
    }
  }
  if (ready.empty()) {
    report_stuck();
    return false;
  }
  // The order in which the threads continue is drawn as well.
  Rng rng(seed_, launches_ + ready.size());
  for (size_t i = ready.size(); i > 1; --i) std::swap(ready[i - 1], ready[rng.next() % i]);
  return true;
}

void Machine::report_stuck() {
  size_t done = 0, at_block = 0, at_warp = 0;
  Thread* waiting = nullptr;
  for (Thread& t : threads_) {
    done += t.done;
    at_block += t.wait == Wait::kBlock;
    at_warp += t.wait == Wait::kWarp;
    if (t.wait != Wait::kNone) waiting = &t;
  }
  current_ = waiting;
  report(fmt::format(
      "a barrier that not all threads reach ({}:{}): {} of {} threads wait at __syncthreads, {} at a warp "
      "barrier with mask {:#x}, {} have returned",
      waiting->file, waiting->line, at_block, threads_.size(), at_warp, waiting->mask, done));
}

}  // namespace

const std::string& fault() { return machine().fault_; }
std::string take_fault() {
  leave_error(0);
  return std::exchange(machine().fault_, "");
}
void report_host(const std::string& what) {
  if (machine().fault_.empty()) machine().fault_ = what;
}
void set_seed(uint64_t seed) { machine().seed_ = seed; }
std::vector<std::string> launched_kernels() { return launch_log().names(); }
uint64_t launches() { return machine().launches_; }

const std::string& planned_fault() {
  static const std::string planned = [] {
    const char* text = std::getenv("SACCADE_EMULATOR_FAULT");
    return std::string(text ? text : "");
  }();
  return planned;
}

void* allocate(size_t bytes) { return memory().allocate(bytes); }
bool deallocate(void* pointer) { return memory().deallocate(pointer); }
void set_memory_limit(size_t bytes) { memory().limit = bytes; }
size_t free_bytes() { return memory().limit - memory().used(); }
size_t total_bytes() { return memory().limit; }

bool copy(void* to, const void* from, size_t bytes) {
  if (!machine().fault_.empty()) return false;
  if (bytes == 0) return true;
  std::string wrong;
  if (device_addresses.contains(from)) wrong = memory().host_read(from, bytes);
  if (wrong.empty() && device_addresses.contains(to)) wrong = memory().host_write(to, bytes);
  if (!wrong.empty()) {
    machine().fault_ = wrong;
    return false;
  }
  memory().open();
  std::memcpy(to, from, bytes);
  memory().close();
  return true;
}

bool set(void* to, int value, size_t bytes) {
  if (dry()) return true;
  if (!machine().fault_.empty()) return false;
  std::string wrong = memory().host_write(to, bytes);
  if (!wrong.empty()) {
    machine().fault_ = wrong;
    return false;
  }
  memory().open();
  std::memset(to, value, bytes);
  memory().close();
  return true;
}

void launch(const std::string& name, Index3 grid, Index3 block, size_t shared_bytes,
            const std::function<void()>& body) {
  machine().launch(name, grid, block, shared_bytes, body);
}

const ThreadPosition& position() { return machine().current().position; }

void block_barrier(const char* file, int line) { machine().wait(Wait::kBlock, 0, true, file, line); }

namespace {

void meet(unsigned mask, bool ordering, const char* file, int line) {
  unsigned lane = machine().current().observer.thread % kLanes;
  if (!(mask >> lane & 1))
    machine().report(
        fmt::format("a warp barrier ({}:{}) whose mask {:#x} lacks its lane {}", file, line, mask, lane));
  machine().wait(Wait::kWarp, mask, ordering, file, line);
}

}  // namespace

void warp_barrier(unsigned mask, const char* file, int line) { meet(mask, true, file, line); }

unsigned lane_of_thread() { return machine().current().observer.thread % kLanes; }

namespace {

const LaneWords* share_in(unsigned mask, const LaneWords& mine, const char* file, int line) {
  auto& slot = machine().warp().words[machine().current().exchanges++ % 2];
  slot[lane_of_thread()] = mine;
  meet(mask, false, file, line);  // registers change hands, memory stays unordered
  return slot.data();
}
LaneWords words_of(uint64_t value) {
  return {{static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)}};
}
uint64_t value_of(const LaneWords& words) { return uint64_t{words.x[0]} | uint64_t{words.x[1]} << 32; }

}  // namespace

const LaneWords* share(const LaneWords& mine, const char* file, int line) {
  return share_in(0xFFFFFFFFu, mine, file, line);
}

uint64_t exchange(unsigned mask, uint64_t value, int lane, const char* file, int line) {
  const LaneWords* words = share_in(mask, words_of(value), file, line);
  if (!(mask >> lane & 1))
    machine().report(
        fmt::format("a shuffle ({}:{}) from lane {}, which mask {:#x} lacks", file, line, lane, mask));
  return value_of(words[lane]);
}

unsigned ballot(unsigned mask, bool value, const char* file, int line) {
  const LaneWords* words = share_in(mask, {{value}}, file, line);
  unsigned out = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if (mask >> lane & 1) out |= words[lane].x[0] << lane;
  return out;
}

unsigned match(unsigned mask, uint64_t value, const char* file, int line) {
  const LaneWords* words = share_in(mask, words_of(value), file, line);
  unsigned out = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if (mask >> lane & 1) out |= (value_of(words[lane]) == value ? 1u : 0u) << lane;
  return out;
}

void fence() { block_order().fence(machine().current().observer); }

void report_fault(std::string what) { machine().report(std::move(what)); }

void* shared_array(const void* key, size_t bytes) { return machine().shared_array(key, bytes); }
void* dynamic_shared() { return machine().dynamic_shared(); }

void check_access(const void* address, size_t bytes, Access access) {
  if (!device_addresses.contains(address)) return;
  Machine& m = machine();
  if (!m.running()) {
    m.report(fmt::format("host code touches device memory at {}", address));
    return;
  }
  ++m.current().accesses;
  if (dry()) {
    if (access != Access::kRead) memory().note_write(address, bytes);
    return;
  }
  const Observer& who = m.current().observer;
  std::string wrong = access == Access::kRead
                          ? memory().read(address, bytes, who)
                          : memory().write(address, bytes, who, access == Access::kAtomic);
  if (!wrong.empty()) m.report(std::move(wrong));
  if (access == Access::kAtomic) block_order().atomic(address, who);
}

void check_alignment(const void* address, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes == 0 || !device_addresses.contains(address)) return;
  machine().report(fmt::format("misaligned: {} bytes at {}", bytes, address));
}

}  // namespace saccade::emulator
