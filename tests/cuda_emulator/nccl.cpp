// NCCL between processes of one machine: a socket for each pair of ranks of a communicator. Work is done at
// once, in the order of the calls, and waits for the other ranks. It reports as faults: bytes beyond an
// allocation or unwritten that a group sends or adds up, work that does not come after what another stream
// does with its memory (streams.cpp), parts that do not fit those of the other rank, receiving into what the
// same group sends, a gather within itself at another place than the rank's, sends and receives outside a
// group.
#include "core/runtime/cuda/libraries/nccl_api.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/cuda_emulator/memory.h"

struct ncclComm {
  int rank = 0, ranks = 1;
  std::vector<int> sockets;  // to the other ranks; -1 for its own
};

namespace {

using saccade::emulator::report_host;

enum class Kind : uint32_t { kHello, kSend, kGather, kReduce };

struct Head {
  Kind kind;
  uint32_t type;
  uint64_t count;
};

struct Operation {
  Kind kind;
  const void* from;
  void* to;  // nullptr: sends only
  size_t count;
  ncclDataType_t type;
  int peer;
  ncclComm_t comm;
  cudaStream_t stream;
  size_t bytes() const { return count * (type == ncclFloat32 ? 4 : 1); }
};

int depth = 0;
std::vector<Operation> group;
std::set<ncclComm_t> live;
std::string last_error;

ncclResult_t refuse(ncclResult_t status, const std::string& why, bool fault = true) {
  last_error = why;
  if (fault) report_host("NCCL: " + why);
  return status;
}

bool write_all(int socket, const void* data, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = ::send(socket, static_cast<const char*>(data) + at, bytes - at, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}
bool read_all(int socket, void* data, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = ::recv(socket, static_cast<char*>(data) + at, bytes - at, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

// The address of a rank, which ends with the process that listens there.
struct Place {
  sockaddr_un address = {};
  socklen_t size;
  Place(const ncclUniqueId& id, int rank) {
    const std::string name = fmt::format("saccade-{}-{}", id.internal, rank);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

struct Hello {
  int rank, ranks, gpu;
};

ncclResult_t greet(ncclComm& comm, int socket) {
  const Hello own{comm.rank, comm.ranks, saccade::emulator::visible_gpus().at(0)};
  Hello other{};
  if (!write_all(socket, &own, sizeof own) || !read_all(socket, &other, sizeof other))
    return refuse(ncclRemoteError, "a rank is gone", false);
  if (other.ranks != own.ranks || other.rank < 0 || other.rank >= own.ranks)
    return refuse(ncclInvalidArgument, fmt::format("{} ranks here, {} there", own.ranks, other.ranks));
  if (other.gpu == own.gpu) return refuse(ncclInvalidUsage, "Duplicate GPU detected", false);
  comm.sockets[static_cast<size_t>(other.rank)] = socket;
  return ncclSuccess;
}

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto *x = static_cast<const char*>(a), *y = static_cast<const char*>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

// The checks of a group that are possible before any data move.
ncclResult_t check_group(const std::vector<Operation>& operations) {
  for (const Operation& o : operations) {
    if (o.comm != operations[0].comm || o.stream != operations[0].stream)
      return refuse(ncclInvalidUsage, "a group of two communicators or streams");
    if (o.kind == Kind::kGather && overlap(o.from, o.bytes(), o.to, o.bytes() * o.comm->sockets.size()) &&
        o.from != static_cast<char*>(o.to) + static_cast<size_t>(o.comm->rank) * o.bytes())
      return refuse(ncclInvalidUsage, "a gather within itself, but not from the rank's own place");
    if (o.kind == Kind::kReduce && o.from != o.to && overlap(o.from, o.bytes(), o.to, o.bytes()))
      return refuse(ncclInvalidUsage, "a reduction from a place that overlaps where it goes");
    for (const Operation& other : operations)
      if (o.kind == Kind::kSend && o.to && !other.to && overlap(o.to, o.bytes(), other.from, other.bytes()))
        return refuse(ncclInvalidUsage, "a group receives into what it sends");
  }
  return ncclSuccess;
}

ncclResult_t receive(const Operation& o, int peer, std::vector<char>& data) {
  const int socket = o.comm->sockets[static_cast<size_t>(peer)];
  Head head{};
  if (!read_all(socket, &head, sizeof head)) return refuse(ncclRemoteError, "a rank is gone", false);
  if (head.kind != o.kind || head.type != static_cast<uint32_t>(o.type) || head.count != o.count)
    return refuse(
        ncclInvalidUsage,
        fmt::format(
            "rank {} gives {} elements, rank {} takes {}, or they do different things or of another type",
            peer, head.count, o.comm->rank, o.count));
  data.resize(o.bytes());
  return read_all(socket, data.data(), data.size()) ? ncclSuccess
                                                    : refuse(ncclRemoteError, "a rank is gone", false);
}

ncclResult_t run(const std::vector<Operation>& operations) {
  if (operations.empty() || saccade::emulator::dry()) return ncclSuccess;
  if (const ncclResult_t status = check_group(operations); status != ncclSuccess) return status;
  ncclComm& comm = *operations[0].comm;
  const size_t ranks = comm.sockets.size(), own = static_cast<size_t>(comm.rank);
  std::vector<std::string> outgoing(ranks);  // to each rank
  std::vector<std::vector<char>> taken;      // of the operations that send
  for (const Operation& o : operations) {
    for (const void* p : {o.from, static_cast<const void*>(o.to)})
      if (p && !order_kernel(emulated_stream(o.stream), &p, sizeof p)) return ncclInternalError;
    std::vector<char>& data = taken.emplace_back();
    if (!o.from) continue;
    data.resize(o.bytes());
    if (!saccade::emulator::copy(data.data(), o.from, data.size())) return ncclInternalError;
    const Head head{o.kind, static_cast<uint32_t>(o.type), o.count};
    for (size_t r = 0; r < ranks; ++r) {
      if (o.kind == Kind::kSend ? static_cast<int>(r) != o.peer : r == own) continue;
      outgoing[r].append(reinterpret_cast<const char*>(&head), sizeof head);
      outgoing[r].append(data.data(), data.size());
    }
  }
  std::vector<std::thread> senders;
  for (size_t r = 0; r < ranks; ++r)
    if (!outgoing[r].empty())
      senders.emplace_back([&, r] { write_all(comm.sockets[r], outgoing[r].data(), outgoing[r].size()); });
  ncclResult_t status = ncclSuccess;
  auto store = [&](void* to, const std::vector<char>& data) {
    if (status == ncclSuccess && !saccade::emulator::copy(to, data.data(), data.size()))
      status = ncclInternalError;
  };
  for (size_t i = 0; i < operations.size() && status == ncclSuccess; ++i) {
    const Operation& o = operations[i];
    if (!o.to) continue;
    std::vector<std::vector<char>> of(ranks);
    for (size_t r = 0; r < ranks && status == ncclSuccess; ++r) {
      if (o.kind == Kind::kSend ? static_cast<int>(r) != o.peer : r == own) continue;
      status = receive(o, static_cast<int>(r), of[r]);
    }
    if (status != ncclSuccess) break;
    if (o.kind == Kind::kSend) store(o.to, of[static_cast<size_t>(o.peer)]);
    if (o.kind != Kind::kSend) of[own] = taken[i];
    for (size_t r = 0; r < ranks && o.kind == Kind::kGather; ++r)
      store(static_cast<char*>(o.to) + r * o.bytes(), of[r]);
    if (o.kind != Kind::kReduce) continue;
    // From the last rank to the first: no order is promised.
    std::vector<char> sums = of[ranks - 1];
    for (size_t r = ranks - 1; r-- > 0;)
      for (size_t k = 0; k < o.count; ++k) {
        float a, b;
        std::memcpy(&a, sums.data() + 4 * k, 4);
        std::memcpy(&b, of[r].data() + 4 * k, 4);
        a += b;
        std::memcpy(sums.data() + 4 * k, &a, 4);
      }
    store(o.to, sums);
  }
  // Otherwise other ranks would wait forever for this one.
  if (status != ncclSuccess)
    for (const int socket : comm.sockets)
      if (socket >= 0) ::shutdown(socket, SHUT_RDWR);
  for (std::thread& sender : senders) sender.join();
  return status;
}

ncclResult_t add(const Operation& o) {
  if (!live.count(o.comm)) return refuse(ncclInvalidArgument, "no communicator");
  if ((!o.from && !o.to) || o.count == 0) return refuse(ncclInvalidArgument, "nothing to move");
  if (o.kind == Kind::kSend && (o.peer < 0 || o.peer >= o.comm->ranks || o.peer == o.comm->rank))
    return refuse(ncclInvalidArgument, fmt::format("rank {} of {}", o.peer, o.comm->ranks));
  if (o.kind == Kind::kReduce && o.type != ncclFloat32) return refuse(ncclInvalidArgument, "a sum of bytes");
  if (o.kind == Kind::kSend && depth == 0)
    return refuse(ncclInvalidUsage, "a send or receive outside of a group: ranks would wait for each other");
  if (depth > 0) {
    group.push_back(o);
    return ncclSuccess;
  }
  return run({o});
}

}  // namespace

namespace saccade::emulator {

std::vector<int> visible_gpus() {
  const char *count = std::getenv("SACCADE_EMULATOR_GPUS"), *names = std::getenv("CUDA_VISIBLE_DEVICES");
  const int gpus = count ? std::atoi(count) : 1;
  std::vector<int> visible;
  if (!count || !names || planned_fault() == "used_before") {
    for (int i = 0; i < gpus; ++i) visible.push_back(i);
    return visible;
  }
  std::istringstream in(names);
  for (std::string name; std::getline(in, name, ',') && !name.empty() && std::atoi(name.c_str()) < gpus;)
    visible.push_back(std::atoi(name.c_str()));
  return visible;
}

}  // namespace saccade::emulator

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  *id = {};
  const std::string name = fmt::format("nccl-{:08x}{:08x}", random(), random());
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (ranks < 1 || rank < 0 || rank >= ranks || std::string_view(id.internal, 5) != "nccl-")
    return refuse(ncclInvalidArgument, fmt::format("rank {} of {}, or an id of nobody", rank, ranks));
  // Without these settings, loading a kernel's code, or two groups of sums in different orders, could make
  // the ranks wait for each other.
  for (const char* name : {"CUDA_MODULE_LOADING", "NCCL_LAUNCH_ORDER_IMPLICIT"})
    if (!std::getenv(name)) return refuse(ncclInvalidUsage, fmt::format("{} is not set", name));
  auto* made = new ncclComm;
  made->rank = rank;
  made->ranks = ranks;
  made->sockets.assign(static_cast<size_t>(ranks), -1);
  const Place own(id, rank);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(listener, own.get(), own.size) != 0 || ::listen(listener, 64) != 0)
    return refuse(ncclInvalidUsage, "two processes with one rank");
  ncclResult_t status = ncclSuccess;
  const auto start = std::chrono::steady_clock::now();
  for (int r = 0; r < rank && status == ncclSuccess; ++r) {
    const Place other(id, r);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (::connect(socket, other.get(), other.size) != 0 && status == ncclSuccess) {
      if (std::chrono::steady_clock::now() - start > std::chrono::seconds(60))
        status = refuse(ncclRemoteError, "a rank has not come", false);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    if (status == ncclSuccess) status = greet(*made, socket);
  }
  for (int r = rank + 1; r < ranks && status == ncclSuccess; ++r)
    status = greet(*made, ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  ::close(listener);
  live.insert(made);
  *comm = made;
  return status;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (live.erase(comm) == 0) return refuse(ncclInvalidArgument, "no communicator");
  for (const int socket : comm->sockets)
    if (socket >= 0) ::close(socket);
  delete comm;
  return ncclSuccess;
}

// SACCADE_EMULATOR_NCCL_FAILS=1: as if the network of rank 1 had failed while the GPU worked.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* status) {
  const char* fails = std::getenv("SACCADE_EMULATOR_NCCL_FAILS");
  *status = fails && std::atoi(fails) == comm->rank ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess           ? "no error"
         : result == ncclInvalidArgument ? "invalid argument"
         : result == ncclInvalidUsage    ? "invalid usage"
         : result == ncclRemoteError     ? "remote process exited or there was a network error"
                                         : "internal error";
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0) return refuse(ncclInvalidUsage, "the end of a group that nobody began");
  if (--depth > 0) return ncclSuccess;
  return run(std::exchange(group, {}));
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add({Kind::kSend, data, nullptr, count, type, peer, comm, stream});
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add({Kind::kSend, nullptr, data, count, type, peer, comm, stream});
}

ncclResult_t ncclAllGather(const void* part, void* all, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add({Kind::kGather, part, all, count, type, -1, comm, stream});
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  return add({Kind::kReduce, from, to, count, type, -1, comm, stream});
}
