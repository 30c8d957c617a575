// Copies between the CPU's and the GPU's memory.
#include "core/kernels/copy/copy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/runtime/cuda/pinned.h"
#include "core/runtime/cuda/recording.h"
#include "core/runtime/host_copy.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

using cuda::PinnedBlock;

constexpr size_t kPageBytes = size_t{1} << 20, kMaxUpload = size_t{16} << 20;
constexpr size_t kAlignment = 64;

void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  ++cuda::launches;
  if (kind == cudaMemcpyHostToDevice) cuda::uploaded_bytes += static_cast<int64_t>(bytes);
  cuda::check(cudaMemcpyAsync(to, from, bytes, kind, stream), "a copy to, from or on the GPU");
}

// Uses all threads: one core copies an estimated 10 to 16 GB/s, while the bus to the GPU can take 50.
void fill_pinned(char* to, const void* from, size_t bytes) {
  constexpr int64_t kPart = int64_t{1} << 20;
  const auto all = static_cast<int64_t>(bytes);
  parallel_for(ceil_div(all, kPart), 4, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kPart;
    std::memcpy(to + first, static_cast<const char*>(from) + first,
                static_cast<size_t>(std::min(end * kPart, all) - first));
  });
}

// Pinned memory for small uploads, which fill it in turn; a full page waits for the GPU by itself.
struct Page {
  std::mutex mutex;
  PinnedBlock block;
  size_t used = 0;
};

// The caller may change or free `from` at once: the GPU later reads a pinned copy.
void upload(char* to, const char* from, size_t bytes) {
  cuda::forbid_in_recording("a copy from the host");
  if (bytes > kPageBytes / 4) {
    for (size_t done = 0; done < bytes; done += kMaxUpload) {
      const size_t part = std::min(kMaxUpload, bytes - done);
      PinnedBlock block(part);
      fill_pinned(block.data(), from + done, part);
      copy(to + done, block.data(), part, cudaMemcpyHostToDevice, cuda::stream());
    }
    return;
  }
  static auto* page = new Page;  // never destroyed, like the pool
  std::lock_guard lock(page->mutex);
  if (!page->block.data() || page->used + bytes > page->block.bytes()) {
    page->block = PinnedBlock(kPageBytes);
    page->used = 0;
  }
  char* pinned = page->block.data() + page->used;
  std::memcpy(pinned, from, bytes);
  copy(to, pinned, bytes, cudaMemcpyHostToDevice, cuda::stream());
  page->used += round_up(bytes, kAlignment);
}

void between_devices(const Tensor& x, Tensor* to) {
  Tensor& y = *to;
  if (x.bytes() == 0) return;
  if (x.device() == Device::kCpu) {
    upload(static_cast<char*>(y.raw()), static_cast<const char*>(x.raw()), x.bytes());
    return;
  }
  cuda::forbid_in_recording("a copy to the host");
  copy(y.raw(), x.raw(), x.bytes(), cudaMemcpyDeviceToHost, cuda::stream());
  cuda::synchronize();
}

// A separate place in GPU memory that the copying stream writes and our stream reads.
struct Staging {
  PinnedBlock host;  // its event: our stream has read the place
  Tensor device;
  bool free() const { return cuda::happened(host.event()); }
};

struct StagingPool {
  // One being written, one being read, and a few more for small sizes.
  static constexpr size_t kLarge = size_t{64} << 20;
  static constexpr std::ptrdiff_t most_of(size_t size) { return size > kLarge ? 2 : 4; }
  std::mutex mutex;
  std::vector<Staging> all;  // the least recently used one first

  // Moves the returned one to the end.
  Staging& take(size_t bytes, cudaStream_t copying) {
    const size_t size = std::bit_ceil(bytes);
    auto of_size = [&](const Staging& s) { return s.device.bytes() == size; };
    auto found = std::find_if(all.begin(), all.end(), of_size);
    if (found != all.end() &&
        (found->free() || std::count_if(all.begin(), all.end(), of_size) >= most_of(size))) {
      std::rotate(found, found + 1, all.end());
      cuda::wait_for(all.back().host.event());
      return all.back();
    }
    all.push_back(
        {PinnedBlock(size), Tensor::empty({static_cast<int64_t>(size)}, DType::kU8, Device::kCuda)});
    // Our stream's memory may come from work that still runs.
    record(all.back(), cuda::stream());
    cuda::check(cudaStreamWaitEvent(copying, all.back().host.event(), 0), "cudaStreamWaitEvent");
    return all.back();
  }
  static void record(const Staging& s, cudaStream_t stream) {
    cuda::check(cudaEventRecord(s.host.event(), stream), "cudaEventRecord");
  }
};

void upload_beside(const Tensor& x, Tensor* to) {
  Tensor& y = *to;
  if (x.bytes() == 0) return;
  cuda::forbid_in_recording("a copy from the host");
  static auto* pool = new StagingPool;  // never destroyed, see above
  static cudaStream_t copying = [] {
    cudaStream_t s = nullptr;
    cuda::stream();  // sets the GPU up
    cuda::check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreate");
    return s;
  }();
  std::lock_guard lock(pool->mutex);
  Staging& place = pool->take(x.bytes(), copying);
  fill_pinned(place.host.data(), x.raw(), x.bytes());
  copy(place.device.raw(), place.host.data(), x.bytes(), cudaMemcpyHostToDevice, copying);
  StagingPool::record(place, copying);
  cuda::check(cudaStreamWaitEvent(cuda::stream(), place.host.event(), 0), "cudaStreamWaitEvent");
  copy(y.raw(), place.device.raw(), x.bytes(), cudaMemcpyDeviceToDevice, cuda::stream());
  StagingPool::record(place, cuda::stream());
}

class CudaHostTransfer final : public HostTransfer {
 public:
  explicit CudaHostTransfer(const Tensor& x) {
    cuda::forbid_in_recording("a copy to the host");
    block_ = PinnedBlock(x.bytes());
    if (x.bytes() > 0) copy(block_.data(), x.raw(), x.bytes(), cudaMemcpyDeviceToHost, cuda::stream());
    cuda::check(cudaEventRecord(block_.event(), cuda::stream()), "cudaEventRecord");
  }
  void* wait() override {
    if (!arrived_) cuda::wait_for(block_.event());
    arrived_ = true;
    return block_.data();
  }

 private:
  PinnedBlock block_;
  bool arrived_ = false;
};

void start_copy(const Tensor& x, std::shared_ptr<HostTransfer>& transfer) {
  transfer = std::make_shared<CudaHostTransfer>(x);
}

[[maybe_unused]] const bool registered = [] {
  copy_between_devices.set_generic(Device::kCpu, &between_devices);
  copy_between_devices.set_generic(Device::kCuda, &between_devices);
  start_upload.set_generic(Device::kCpu, &upload_beside);
  start_host_copy.set_generic(Device::kCuda, &start_copy);
  return true;
}();

}  // namespace
}  // namespace saccade::kernels
