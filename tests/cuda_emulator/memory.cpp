#include "tests/cuda_emulator/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_emulator/block_order.h"
#include "tests/cuda_emulator/emulator.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace saccade::emulator {
namespace {

// Without the hooks, the accesses of kernels are not seen.
#ifdef SACCADE_EMULATOR_HOOKS
constexpr bool kHooks = true;
#else
constexpr bool kHooks = false;
#endif
// The sizes of the reserved address range: a checked one has its states and cells next to it, that of a dry
// run does not.
constexpr size_t kCheckedBytes = size_t{16} << 30, kDryBytes = size_t{1} << 40;
constexpr size_t kAlignment = 256;  // as cudaMalloc gives
constexpr size_t kGap = 256;        // between allocations; belongs to none

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
size_t size_of_allocation(size_t bytes) { return round_up(std::max<size_t>(bytes, 1), kAlignment); }

void* reserve(size_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) std::abort();
  return p;
}

void hide([[maybe_unused]] void* p, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(p, bytes);
#endif
}
void show([[maybe_unused]] void* p, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(p, bytes);
#endif
}

}  // namespace

struct Memory::Cell {
  uint32_t launch;
  uint32_t write_block, write_thread, read_block, read_thread;
  uint16_t write_block_epoch, write_warp_epoch, read_block_epoch, read_warp_epoch;
  uint16_t write_fences, read_fences;
  uint8_t write_bytes, read_bytes;  // bit i: byte i
};

AddressRange device_addresses;

bool dry() {
  static const bool dry = [] {
    const char* text = std::getenv("SACCADE_EMULATOR_DRY");
    return text && *text && *text != '0';
  }();
  return dry;
}

bool runs_small_launches() {
  static const bool runs = dry() && std::getenv("SACCADE_EMULATOR_DRY") == std::string("small");
  return runs;
}

Memory::Memory()
    : reserved_(dry() ? kDryBytes : kCheckedBytes),
      base_(static_cast<char*>(
          reserve(reserved_, runs_small_launches() ? PROT_READ | PROT_WRITE : PROT_NONE))) {
  device_addresses = {base_, reserved_};
  if (dry()) {
    limit = reserved_;
    return;
  }
  states_ = static_cast<uint8_t*>(reserve(reserved_, PROT_READ | PROT_WRITE));
  cells_ = static_cast<Cell*>(reserve(reserved_ / 4 * sizeof(Cell), PROT_READ | PROT_WRITE));
  const std::string memory = "memory:", &planned = planned_fault();
  if (planned.starts_with(memory)) limit = std::stoull(planned.substr(memory.size()));
}

void* Memory::allocate(size_t bytes) {
  size_t size = size_of_allocation(bytes);
  if (used() + size > limit) return nullptr;
  void* p = nullptr;
  if (auto it = freed_.find(size); it != freed_.end()) {
    p = it->second;
    freed_.erase(it);
  } else {
    if (top_ + size + kGap > reserved_) return nullptr;
    p = base_ + top_;
    hide(base_ + top_ + size, kGap);
    top_ += size + kGap;
  }
  used_ += size;
  live_[p] = bytes;
  if (dry()) return p;
  std::memset(states_ + (static_cast<char*>(p) - base_), kFresh, bytes);
  show(p, bytes);
  hide(static_cast<char*>(p) + bytes, size - bytes);
  return p;
}

bool Memory::deallocate(void* pointer) {
  auto it = live_.find(pointer);
  if (it == live_.end()) return false;
  size_t size = size_of_allocation(it->second);
  if (!dry()) {
    std::memset(states_ + (static_cast<char*>(pointer) - base_), kOutside, it->second);
    hide(pointer, size);
  }
  used_ -= size;
  freed_.emplace(size, pointer);
  live_.erase(it);
  return true;
}

void* Memory::allocate_pooled(size_t bytes) {
  const size_t before = pooled_;
  pooled_ -= std::min(pooled_, size_of_allocation(bytes));
  void* p = allocate(bytes);
  if (!p) pooled_ = before;
  return p;
}

bool Memory::deallocate_pooled(void* pointer) {
  const size_t before = used_;
  const bool known = deallocate(pointer);
  pooled_ += before - used_;
  return known;
}

std::pair<const char*, size_t> Memory::allocation(const void* p) const {
  auto it = live_.upper_bound(const_cast<void*>(p));
  if (!device_addresses.contains(p) || it == live_.begin()) return {};
  --it;
  const auto* begin = static_cast<const char*>(it->first);
  return static_cast<const char*>(p) < begin + it->second ? std::pair{begin, it->second}
                                                          : std::pair<const char*, size_t>{};
}

void Memory::open() {
  if (!dry()) mprotect(base_, round_up(top_, 4096), PROT_READ | PROT_WRITE);
}
void Memory::close() {
  if (!dry()) mprotect(base_, round_up(top_, 4096), PROT_NONE);
}

std::string Memory::describe(const char* what, const void* p, size_t bytes) const {
  // The allocation at or before the place.
  auto it = live_.upper_bound(const_cast<void*>(p));
  if (it == live_.begin()) return fmt::format("{} of {} bytes at {}", what, bytes, p);
  --it;
  auto offset = static_cast<const char*>(p) - static_cast<char*>(it->first);
  return fmt::format("{} of {} bytes at byte {} of an allocation of {}", what, bytes, offset, it->second);
}

std::string Memory::check_state(const char* what, const void* p, size_t bytes, bool needs_written) const {
  const uint8_t* state = states_ + (static_cast<const char*>(p) - base_);
  for (size_t i = 0; i < bytes; ++i) {
    if (state[i] == kOutside) return describe(what, p, bytes) + ", outside an allocation";
    if (needs_written && state[i] == kFresh) return describe(what, p, bytes) + ", never written";
  }
  return "";
}

std::string Memory::check_race(const void* p, size_t bytes, const Observer& who, bool write) {
  auto offset = static_cast<size_t>(static_cast<const char*>(p) - base_);
  // Ordered by a barrier that both passed in between, or from block to block.
  auto apart = [&](uint32_t block, uint32_t thread, uint16_t block_epoch, uint16_t warp_epoch,
                   uint16_t fences) {
    if (block != who.block)
      return block_order().before({who.launch, block, thread, block_epoch, warp_epoch, fences}, who);
    if (thread == who.thread || block_epoch != who.block_epoch) return true;
    return thread / 32 == who.thread / 32 && warp_epoch != who.warp_epoch;
  };
  for (size_t word = offset / 4; word <= (offset + bytes - 1) / 4; ++word) {
    Cell& c = cells_[word];
    if (c.launch != who.launch) {
      std::memset(&c, 0, sizeof c);
      c.launch = who.launch;
    }
    uint8_t touched = 0;
    for (size_t i = 0; i < 4; ++i)
      if (size_t at = 4 * word + i; at >= offset && at < offset + bytes)
        touched |= static_cast<uint8_t>(1u << i);
    if ((c.write_bytes & touched) &&
        !apart(c.write_block, c.write_thread, c.write_block_epoch, c.write_warp_epoch, c.write_fences))
      return describe(write ? "race: a write" : "race: a read", p, bytes) +
             fmt::format(", after a write by thread {} of block {}", c.write_thread, c.write_block);
    if (write && (c.read_bytes & touched) &&
        !apart(c.read_block, c.read_thread, c.read_block_epoch, c.read_warp_epoch, c.read_fences))
      return describe("race: a write", p, bytes) +
             fmt::format(", after a read by thread {} of block {}", c.read_thread, c.read_block);
    if (write) {
      c.write_block = who.block, c.write_thread = who.thread, c.write_bytes = touched;
      c.write_block_epoch = who.block_epoch, c.write_warp_epoch = who.warp_epoch, c.write_fences = who.fences;
    } else {
      c.read_block = who.block, c.read_thread = who.thread, c.read_bytes = touched;
      c.read_block_epoch = who.block_epoch, c.read_warp_epoch = who.warp_epoch, c.read_fences = who.fences;
    }
  }
  return "";
}

std::string Memory::read(const void* p, size_t bytes, const Observer& who) {
  std::string wrong = check_state("read", p, bytes, kHooks);
  return wrong.empty() && kHooks ? check_race(p, bytes, who, false) : wrong;
}

std::string Memory::write(const void* p, size_t bytes, const Observer& who, bool atomic) {
  std::string wrong = check_state(atomic ? "atomic" : "write", p, bytes, atomic && kHooks);
  if (wrong.empty() && !atomic && kHooks) wrong = check_race(p, bytes, who, true);
  if (wrong.empty()) std::memset(states_ + (static_cast<const char*>(p) - base_), kWritten, bytes);
  return wrong;
}

std::string Memory::host_read(const void* p, size_t bytes) const {
  return check_state("copy from", p, bytes, kHooks);
}

std::string Memory::host_write(const void* p, size_t bytes) {
  std::string wrong = check_state("copy to", p, bytes, false);
  if (wrong.empty()) std::memset(states_ + (static_cast<const char*>(p) - base_), kWritten, bytes);
  return wrong;
}

void Memory::clear_written() {
  for (const auto& [p, bytes] : written_) std::memset(p, 0, bytes);
  written_.clear();
}

void Memory::forget(void* p, size_t bytes) {
  if (dry()) return;
  auto offset = static_cast<size_t>(static_cast<char*>(p) - base_);
  std::memset(states_ + offset, kFresh, bytes);
  std::memset(cells_ + offset / 4, 0, round_up(bytes, 4) / 4 * sizeof(Cell));
  show(p, bytes);
}

void Memory::withdraw(void* p, size_t bytes) {
  if (dry()) return;
  std::memset(states_ + (static_cast<char*>(p) - base_), kOutside, bytes);
  hide(p, bytes);
}

void Memory::renew(void* block, size_t size, size_t bytes) {
  if (dry()) return;
  withdraw(block, size);
  std::memset(states_ + (static_cast<char*>(block) - base_), kFresh, bytes);
  show(block, bytes);
}

void renew(void* block, size_t size, size_t bytes) { memory().renew(block, size, bytes); }

Memory& memory() {
  static auto* memory = new Memory;  // tensors with static storage are freed after any static object
  return *memory;
}

}  // namespace saccade::emulator
