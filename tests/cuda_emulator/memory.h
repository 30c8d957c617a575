// Device memory of the emulated GPU, and what is known about each of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace saccade::emulator {

// SACCADE_EMULATOR_DRY=1 in the environment: kernels, library calls and copies do nothing, nothing is
// checked, device memory is only an address, and copies from it are zero. The remaining time of a program is
// the host's.
bool dry();
// SACCADE_EMULATOR_DRY=small: kernels of fewer than kFewThreads threads (launch_log.h) still run, unchecked
// and on zeros, so that their accesses are counted. Their results are discarded after the launch: an index
// that one of them computed from what a larger kernel had to prepare could lead another anywhere.
bool runs_small_launches();

// The addresses of device memory. Most accesses that the hooks see are to the host's.
struct AddressRange {
  const char* begin = nullptr;
  size_t bytes = 0;
  bool contains(const void* p) const {
    return static_cast<size_t>(static_cast<const char*>(p) - begin) < bytes;
  }
};
extern AddressRange device_addresses;  // empty before the first allocation

// The thread of a running kernel that makes an access.
struct Observer {
  uint32_t launch = 0;
  uint32_t block = 0, thread = 0;            // linear
  uint16_t block_epoch = 0, warp_epoch = 0;  // barriers passed
  uint16_t fences = 0;
};

class Memory {
 public:
  Memory();

  void* allocate(size_t bytes);
  bool deallocate(void* pointer);
  // The same for the stream's pool, which keeps freed memory for itself until trim().
  void* allocate_pooled(size_t bytes);
  bool deallocate_pooled(void* pointer);
  void trim() { pooled_ = 0; }
  // The live allocation that contains p: its beginning and size; nullptr if there is none.
  std::pair<const char*, size_t> allocation(const void* p) const;
  // Whether host code may access device memory now: while kernels and copies run.
  void open();
  void close();

  // Returns "" or what is wrong with the access.
  std::string read(const void* p, size_t bytes, const Observer& who);
  std::string write(const void* p, size_t bytes, const Observer& who, bool atomic);
  // The same for copies by the host, with which no thread races.
  std::string host_read(const void* p, size_t bytes) const;
  std::string host_write(const void* p, size_t bytes);
  // For a launch that runs on zeros: notes what it writes, and restores zeros there.
  void note_write(const void* p, size_t bytes) { written_.emplace_back(const_cast<void*>(p), bytes); }
  void clear_written();
  // Make the shared memory of a block look as if just allocated, and as if outside all allocations. `p` is
  // aligned to 8.
  void forget(void* p, size_t bytes);
  void withdraw(void* p, size_t bytes);
  // Makes the first `bytes` of a cache's block look as if just allocated, and the rest as if outside all
  // allocations.
  void renew(void* block, size_t size, size_t bytes);

  size_t limit = size_t{8} << 30;
  size_t used() const { return used_ + pooled_; }

 private:
  enum State : uint8_t { kOutside, kFresh, kWritten };
  struct Cell;  // the last accesses to four bytes
  std::string describe(const char* what, const void* p, size_t bytes) const;
  std::string check_state(const char* what, const void* p, size_t bytes, bool needs_written) const;
  std::string check_race(const void* p, size_t bytes, const Observer& who, bool write);

  const size_t reserved_;
  char* base_;
  uint8_t* states_ = nullptr;  // one byte per byte
  Cell* cells_ = nullptr;      // one per four bytes
  size_t top_ = 0, used_ = 0, pooled_ = 0;
  std::map<void*, size_t> live_;
  std::multimap<size_t, void*> freed_;
  std::vector<std::pair<void*, size_t>> written_;
};

Memory& memory();
void renew(void* block, size_t size, size_t bytes);

}  // namespace saccade::emulator
