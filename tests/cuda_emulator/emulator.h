// The emulated GPU: device memory that knows which bytes may be read, and a scheduler that runs the threads
// of a kernel as fibers in a random order drawn from a seed. It reports, with the kernel, block and thread:
//   * a barrier that not all threads of a block (or of a warp's mask) reach;
//   * a read of device or shared memory that nobody has written;
//   * an access outside an allocation, to the byte (with hooks.cpp, or with AddressSanitizer);
//   * two threads that touch one place, one of them writing, without a barrier between (with hooks.cpp); a
//     shuffle or vote is none; blocks are ordered by fences around an atomic (block_order.h);
//   * a load or store at an address that is no multiple of its size, which ends a kernel on a GPU;
//   * host code that touches device memory.
// After a report the launch is given up, and every CUDA call fails until take_fault() is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace saccade::emulator {

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

// ---- for tests
const std::string& fault();                 // the first report, "" if there is none
std::string take_fault();                   // the same, and clears it
void report_host(const std::string& what);  // a fault of host code
void set_seed(uint64_t seed);               // for the order of blocks and threads
// Names of the kernels that ran since the start of the program.
std::vector<std::string> launched_kernels();
uint64_t launches();  // so far

// The fault that SACCADE_EMULATOR_FAULT in the environment asks for, "" if none: no_driver, old_driver,
// no_gpu, old_gpu, no_pools, no_kernel_image, memory:BYTES (a GPU with that much memory), full_at:NUMBER (its
// pool has none left for that allocation), or used_before (CUDA has read CUDA_VISIBLE_DEVICES before the
// program sets it).
const std::string& planned_fault();

// Whether a call must fail: LibraryFaults names it (library_faults.h), or SACCADE_EMULATOR_FAULT=call:NAME
// does.
bool is_to_fail(const char* call);

// The GPUs that CUDA sees: those of the machine (SACCADE_EMULATOR_GPUS in the environment, or one) that
// CUDA_VISIBLE_DEVICES names.
std::vector<int> visible_gpus();
// The device of the calling thread.
int current_device();
void set_current_device(int device);

// The error left by this thread's last failed call, 0 for none. Kernels and libraries find it, as on a GPU,
// and fail.
int last_error();
void leave_error(int error);

// ---- device memory
void* allocate(size_t bytes);  // nullptr if the memory is used up
bool deallocate(void* pointer);
void set_memory_limit(size_t bytes);
size_t free_bytes();
size_t total_bytes();
// Copies between host and device or within either; returns false after a report.
bool copy(void* to, const void* from, size_t bytes);
bool set(void* to, int value, size_t bytes);

// ---- streams: work is done at once, and the host learns of it when it waits. Until then a copy into pinned
// memory has not arrived, and pinned memory that a copy reads must not change. A copy that touches what a
// copy of another stream wrote, or writes what it read, must come after it, ordered by an event. The same
// holds between copies and the kernels, fills, allocations and frees of another stream; a kernel touches the
// allocations that its arguments point into. The default stream comes before and after everything else.
struct Stream {
  uint64_t issued = 0, seen = 0;  // works; the host knows that the first `seen` are done
  struct Wait {                   // the work `at` waits for another stream
    Stream* other;
    uint64_t position, at;
  };
  std::vector<Wait> waits;
  int device = 0;                   // the current one when it was made
  struct Graph* capture = nullptr;  // the graph that keeps its works, instead of doing them
};
struct Event {
  Stream* stream = nullptr;  // nullptr if not recorded
  uint64_t position = 0;
  double ms = 0;  // on the host's clock, when it was recorded
};
Stream& default_stream();
Stream& new_stream();  // lives to the end of the program
void record(Event& event, Stream& stream);
bool happened(const Event& event);  // as far as the host knows; true if nobody recorded it
// With a seed other than 0 (SACCADE_EMULATOR_EVENTS in the environment sets it for a program), an event that
// the host does not know of reports completion at random moments, like the events of a fast GPU.
void set_event_seed(uint64_t seed);
// Orders a kernel with these arguments, an allocation or a free on a stream; false or nullptr after a report.
bool order_kernel(Stream& stream, const void* arguments, size_t bytes);
void* allocate_on(Stream& stream, size_t bytes);
bool free_on(Stream& stream, void* pointer);
// Until this call, memory freed on a stream stays taken for allocate(), but not for allocate_on().
void trim_pool();
void synchronize(Stream& stream, uint64_t position);
bool wait(Stream& stream, const Event& event);  // false after a report
void* allocate_pinned(size_t bytes);
bool free_pinned(void* pointer);
bool copy_async(void* to, const void* from, size_t bytes, Stream& stream);

// ---- graphs: while a stream is captured, its kernels, fills, library calls and copies within the GPU's
// memory are kept, with their current arguments, and done at each launch of the graph. Anything from which
// the host would learn a result, or that uses the host's memory, is reported.
struct Graph {
  std::vector<std::function<void()>> works;
  std::thread::id thread = std::this_thread::get_id();  // the one that captures
};
bool begin_capture(Stream& stream);  // false after a report
Graph* end_capture(Stream& stream);  // owned by the caller; nullptr after a report
bool launch_graph(const Graph& graph, Stream& stream);
bool may_call(const Stream& stream, const char* call);  // false, with a report, while the stream is captured
// Returns false, with a report, if another thread captures the stream, or another device is the current one.
bool may_issue(const Stream& stream);
// The same, and also if an earlier call has left an error.
bool may_launch(const Stream& stream);
template <class Work>
void issue(Stream& stream, Work work, bool (*may)(const Stream&) = &may_launch) {
  if (!may(stream)) return;
  if (stream.capture)
    stream.capture->works.emplace_back(std::move(work));
  else
    work();
}

// ---- kernels
void launch(const std::string& name, Index3 grid, Index3 block, size_t shared_bytes,
            const std::function<void()>& body);

// ---- called by kernels
struct ThreadPosition {
  Index3 thread, block, block_size, grid_size;
};
const ThreadPosition& position();
unsigned lane_of_thread();
void block_barrier(const char* file, int line);
void warp_barrier(unsigned mask, const char* file, int line);
void fence();  // see block_order.h
// Every lane of the mask gives a value and gets the value of `lane`.
uint64_t exchange(unsigned mask, uint64_t value, int lane, const char* file, int line);
// The registers of a lane in an instruction of the whole warp.
struct LaneWords {
  uint32_t x[6];
};
// Each of the 32 lanes shows its registers; returns all of them, valid until the next exchange but one.
const LaneWords* share(const LaneWords& mine, const char* file, int line);
// Bit i: whether lane i of the mask gave a value other than 0.
unsigned ballot(unsigned mask, bool value, const char* file, int line);
// Bit i: whether lane i of the mask gave the same value as this one.
unsigned match(unsigned mask, uint64_t value, const char* file, int line);
// The block's array for this key; the same for all its threads.
void* shared_array(const void* key, size_t bytes);
void* dynamic_shared();
// An access of device code: checked for bounds, initialisation and races. Called by hooks.cpp before each
// load and store of instrumented code, and by the atomics.
enum class Access { kRead, kWrite, kAtomic };
void check_access(const void* address, size_t bytes, Access access);
// Checks that an access of `bytes` at once is aligned. Called by the hooks, and where the compiler may have
// split a wide access before they see it.
void check_alignment(const void* address, size_t bytes);
// Reports a fault that an emulated instruction finds in its arguments.
void report_fault(std::string what);

}  // namespace saccade::emulator
