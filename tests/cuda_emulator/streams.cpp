#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/philox.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/launch_log.h"
#include "tests/cuda_emulator/library_faults.h"
#include "tests/cuda_emulator/memory.h"

namespace saccade::emulator {
namespace {

// A copy between pinned and device memory.
struct PendingCopy {
  Stream* stream;
  uint64_t position;
  char* pinned;
  std::vector<char> bytes;
  bool to_host;
};

// The part of the GPU's memory that a copy accessed.
struct Touched {
  const Stream* stream;
  uint64_t position;
  const char* begin;
  size_t bytes;
  bool written;
};

// The last kernel, fill or allocation that used an allocation. A kernel's arguments show which allocations it
// may access, but not how: they count as written.
struct Use {
  const Stream* stream;
  uint64_t position;
};

bool comes_after(const Stream& now, const Stream* other, uint64_t position) {
  return other == &now || position <= other->seen ||
         std::any_of(now.waits.begin(), now.waits.end(),
                     [&](const Stream::Wait& w) { return w.other == other && w.position >= position; });
}

struct Host {
  std::map<const char*, std::unique_ptr<char[]>> blocks;
  std::map<const char*, size_t> sizes;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<PendingCopy> pending;
  std::vector<Touched> touched;
  std::map<const char*, Use> uses;  // by the begin of the allocation
  uint64_t event_seed = [] {
    const char* text = std::getenv("SACCADE_EMULATOR_EVENTS");
    return text ? std::stoull(text) : 0;
  }();
  uint64_t queries = 0;

  // Notes that a kernel, a fill or a free uses an allocation. Returns a report, or "".
  std::string use(const Stream& stream, uint64_t position, const char* begin, size_t bytes) {
    auto last = uses.find(begin);
    if (&stream == &default_stream()) {
      if (last != uses.end()) uses.erase(last);
      return "";
    }
    for (const Touched& t : touched)
      if (t.begin < begin + bytes && begin < t.begin + t.bytes && !comes_after(stream, t.stream, t.position))
        return "a kernel, a fill or a free does not wait for a copy of another stream";
    if (last != uses.end() && !comes_after(stream, last->second.stream, last->second.position))
      return "a kernel, a fill or a free does not wait for one of another stream";
    uses[begin] = {&stream, position};
    return "";
  }

  // Notes the access of a copy. Returns a report, or "".
  std::string touch(const Touched& now) {
    // Tests use the default stream for work that comes before and after everything else.
    if (!device_addresses.contains(now.begin)) return "";
    if (now.stream == &default_stream()) {
      uses.erase(memory().allocation(now.begin).first);
      return "";
    }
    for (const Touched& t : touched) {
      if (t.stream == now.stream || !(t.written || now.written) || now.begin >= t.begin + t.bytes ||
          t.begin >= now.begin + now.bytes)
        continue;
      if (!comes_after(*now.stream, t.stream, t.position))
        return "two streams copy to or from one place, and neither waits for the other";
    }
    if (auto it = uses.find(memory().allocation(now.begin).first);
        it != uses.end() && !comes_after(*now.stream, it->second.stream, it->second.position))
      return "a copy does not wait for the kernel, fill or allocation of another stream";
    touched.push_back(now);
    return "";
  }
  bool pinned(const void* p) const {
    auto it = sizes.upper_bound(static_cast<const char*>(p));
    if (it == sizes.begin()) return false;
    --it;
    return static_cast<const char*>(p) < it->first + it->second;
  }
};

Host& host() {
  static auto* host = new Host;
  return *host;
}

}  // namespace

Stream& default_stream() {
  static Stream stream;
  return stream;
}

Stream& new_stream() {
  Stream& stream = *host().streams.emplace_back(std::make_unique<Stream>());
  stream.device = current_device();
  return stream;
}

void record(Event& event, Stream& stream) {
  const std::chrono::duration<double, std::milli> now = std::chrono::steady_clock::now().time_since_epoch();
  event = {&stream, ++stream.issued, now.count()};
}
void set_event_seed(uint64_t seed) {
  host().event_seed = seed;
  host().queries = 0;
}
bool happened(const Event& event) {
  if (dry() || !event.stream || event.position <= event.stream->seen) return true;
  if (host().event_seed == 0 || mix_key(host().event_seed, ++host().queries) % 2) return false;
  synchronize(*event.stream, event.position);  // the GPU has come so far by now
  return true;
}

bool order_kernel(Stream& stream, const void* arguments, size_t bytes) {
  if (dry()) return true;
  ++stream.issued;
  const char* words = static_cast<const char*>(arguments);
  for (size_t at = 0; at + sizeof(void*) <= bytes; at += sizeof(void*)) {
    const void* p = nullptr;
    std::memcpy(&p, words + at, sizeof p);
    auto [begin, size] = memory().allocation(p);
    if (!begin) continue;
    if (std::string report = host().use(stream, stream.issued, begin, size); !report.empty()) {
      report_host(report);
      return false;
    }
  }
  return true;
}
namespace {
// Whether this is the allocation of SACCADE_EMULATOR_FAULT=full_at:NUMBER, or the one after it,
// which repeats it.
bool is_to_find_no_memory() {
  static const uint64_t number = [] {
    const std::string full_at = "full_at:", &planned = planned_fault();
    return planned.starts_with(full_at) ? std::stoull(planned.substr(full_at.size())) : 0;
  }();
  static uint64_t allocations = 0;
  if (number == 0) return false;
  ++allocations;
  return allocations == number || allocations == number + 1;
}
}  // namespace
void* allocate_on(Stream& stream, size_t bytes) {
  if (is_to_find_no_memory()) return nullptr;
  void* p = memory().allocate_pooled(bytes);
  if (p && !dry() && &stream != &default_stream())
    host().uses[static_cast<char*>(p)] = {&stream, ++stream.issued};
  return p;
}
bool free_on(Stream& stream, void* pointer) {
  if (dry()) return memory().deallocate_pooled(pointer);
  auto [begin, size] = memory().allocation(pointer);
  std::string report = begin ? host().use(stream, ++stream.issued, begin, size) : "";
  if (!report.empty()) report_host(report);
  if (begin) {
    host().uses.erase(begin);
    std::erase_if(host().touched, [&, begin = begin, size = size](const Touched& t) {
      return t.begin < begin + size && begin < t.begin + t.bytes;
    });
  }
  return memory().deallocate_pooled(pointer) && report.empty();
}
void trim_pool() { memory().trim(); }

bool begin_capture(Stream& stream) {
  if (!may_call(stream, "cudaStreamBeginCapture")) return false;
  stream.capture = new Graph;
  return true;
}
Graph* end_capture(Stream& stream) {
  Graph* graph = std::exchange(stream.capture, nullptr);
  if (!graph) report_host("cudaStreamEndCapture: the stream is not captured");
  return graph;
}
bool launch_graph(const Graph& graph, Stream& stream) {
  if (!may_call(stream, "cudaGraphLaunch")) return false;
  for (const auto& work : graph.works) work();
  return fault().empty();
}
bool may_call(const Stream& stream, const char* call) {
  if (stream.capture) report_host(std::string(call) + " while the stream is captured");
  return !stream.capture && may_issue(stream);
}
bool may_issue(const Stream& stream) {
  if (stream.capture && stream.capture->thread != std::this_thread::get_id())
    report_host("a thread issues work to a stream that another thread captures");
  else if (&stream != &default_stream() && stream.device != current_device())
    report_host(fmt::format("invalid resource handle: a stream of device {}, the current one is {}",
                            stream.device, current_device()));
  else
    return true;
  return false;
}
bool may_launch(const Stream& stream) {
  if (last_error() != 0)
    report_host(
        fmt::format("a kernel or library finds the error {} that an earlier call has left", last_error()));
  return last_error() == 0 && may_issue(stream);
}

namespace {
thread_local int device_of_thread = 0, error_of_thread = 0;
}
int current_device() { return device_of_thread; }
void set_current_device(int device) { device_of_thread = device; }
int last_error() { return error_of_thread; }
void leave_error(int error) { error_of_thread = error; }

bool is_to_fail(const char* call) {
  return library_faults().failing_calls.contains(call) || planned_fault() == std::string("call:") + call;
}

void synchronize(Stream& stream, uint64_t position) {
  if (dry()) return;
  stream.seen = std::max(stream.seen, position);
  for (PendingCopy& copy : host().pending) {
    if (copy.stream != &stream || copy.position > stream.seen) continue;
    if (copy.to_host)
      std::memcpy(copy.pinned, copy.bytes.data(), copy.bytes.size());
    else if (std::memcmp(copy.pinned, copy.bytes.data(), copy.bytes.size()) != 0)
      report_host("pinned memory was changed before the host knew that a copy had read it");
    copy.stream = nullptr;
  }
  std::erase_if(host().pending, [](const PendingCopy& copy) { return !copy.stream; });
  std::erase_if(host().touched,
                [&](const Touched& t) { return t.stream == &stream && t.position <= stream.seen; });
  // The work that this stream had waited for is done too.
  auto known = std::partition(stream.waits.begin(), stream.waits.end(),
                              [&](const Stream::Wait& w) { return w.at > stream.seen; });
  std::vector<Stream::Wait> done(known, stream.waits.end());
  stream.waits.erase(known, stream.waits.end());
  for (const Stream::Wait& w : done) synchronize(*w.other, w.position);
}

bool wait(Stream& stream, const Event& event) {
  if (!event.stream) {
    report_host("a stream waits for an event that nobody recorded");
    return false;
  }
  if (!dry()) stream.waits.push_back({event.stream, event.position, ++stream.issued});
  return true;
}

void* allocate_pinned(size_t bytes) {
  auto block = std::make_unique<char[]>(bytes);
  char* p = block.get();
  host().blocks[p] = std::move(block);
  host().sizes[p] = bytes;
  return p;
}

bool free_pinned(void* pointer) {
  host().sizes.erase(static_cast<char*>(pointer));
  return host().blocks.erase(static_cast<char*>(pointer)) == 1;
}

bool copy_async(void* to, const void* from, size_t bytes, Stream& stream) {
  const bool up = device_addresses.contains(to), down = device_addresses.contains(from);
  launch_log().add(up && down ? "copy" : up ? "copy to the GPU" : "copy to the host");
  if (dry()) {
    if (!up) std::memset(to, 0, bytes);
    return true;
  }
  ++stream.issued;
  for (bool written : {false, true}) {
    const auto* place = static_cast<const char*>(written ? to : from);
    std::string report = host().touch({&stream, stream.issued, place, bytes, written});
    if (report.empty()) continue;
    report_host(report);
    return false;
  }
  auto *target = static_cast<char*>(to), *source = static_cast<char*>(const_cast<void*>(from));
  if (host().pinned(to)) {
    std::vector<char> values(bytes);
    if (!copy(values.data(), from, bytes)) return false;
    std::memset(to, 0xEE, bytes);
    host().pending.push_back({&stream, stream.issued, target, std::move(values), true});
    return true;
  }
  if (!copy(to, from, bytes)) return false;
  if (host().pinned(from))
    host().pending.push_back({&stream, stream.issued, source, {source, source + bytes}, false});
  return true;
}

}  // namespace saccade::emulator
