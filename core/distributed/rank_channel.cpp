#include "core/distributed/rank_channel.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>

#include "core/tensor/error.h"

namespace saccade {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since_time(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// Frames: a kind, the length of the body, the body.
constexpr char kHello = 'H', kBeat = 'B', kPart = 'P', kAll = 'A', kFail = 'F', kDone = 'D';
constexpr size_t kHeader = 9;
constexpr uint64_t kMostBytes = uint64_t{1} << 32;

std::string frame(char kind, const std::string& body) {
  std::string out(kHeader, kind);
  const uint64_t size = body.size();
  std::memcpy(out.data() + 1, &size, sizeof(size));
  return out + body;
}

template <class T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
template <class T>
T take(const std::string& in, size_t& at) {
  T value{};
  if (at + sizeof(T) > in.size()) fail("[ranks] a message is cut short");
  std::memcpy(&value, in.data() + at, sizeof(T));
  at += sizeof(T);
  return value;
}

std::string own_name() {
  char host[256] = "this machine";
  ::gethostname(host, sizeof(host) - 1);
  return fmt::format("process {} on {}", ::getpid(), host);
}

void no_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void print_line(const std::string& line) {
  std::string text = "error: " + line;
  std::replace(text.begin(), text.end(), '\n', ' ');
  text += '\n';
  [[maybe_unused]] const ssize_t written = ::write(2, text.data(), text.size());
}

}  // namespace

struct RankChannel::Peer {
  int rank = 0, socket = -1;
  std::string name;  // "process 12 on host"
  std::mutex sending;
  std::string input;              // bytes of a frame that is not whole yet
  std::deque<std::string> parts;  // of exchanges that nobody has asked for yet
  Clock::time_point heard = Clock::now();
  bool done = false;  // it needs nobody any more
  ~Peer() {
    if (socket >= 0) ::close(socket);
  }

  // Waits for room; false when the connection is gone.
  bool send(const std::string& bytes) {
    std::lock_guard lock(sending);
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      at += static_cast<size_t>(sent);
    }
    return true;
  }
  // Never waits: whoever cannot take it has worse problems.
  void try_send(const std::string& bytes) {
    std::unique_lock lock(sending, std::try_to_lock);
    if (lock.owns_lock()) [[maybe_unused]]
      const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
};

RankListener::RankListener(int port, bool local) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(local ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof(address);
  if (socket_ < 0 || ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket_, 1024) != 0 ||
      ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const std::string why = std::strerror(errno);
    if (socket_ >= 0) ::close(socket_);
    fail("rank 0 cannot listen on port {}: {}", port, why);
  }
  port_ = ntohs(address.sin_port);
}

RankListener::~RankListener() { ::close(socket_); }

RankChannel::RankChannel(const Options& options, const RankListener* listener) : options_(options) {
  if (options_.rank == 0)
    connect_to_all(*listener);
  else
    connect_to_first();
  for (const auto& peer : peers_) peer->heard = Clock::now();
  thread_ = std::thread([this] { watch(); });
}

RankChannel::~RankChannel() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void RankChannel::connect_to_all(const RankListener& listener) {
  const Clock::time_point start = Clock::now();
  std::vector<std::unique_ptr<Peer>> found(static_cast<size_t>(options_.size));
  for (int missing = options_.size - 1; missing > 0;) {
    pollfd ready{listener.socket(), POLLIN, 0};
    const double left = options_.timeout_s - seconds_since_time(start);
    if (left <= 0) {
      for (size_t r = 1; r < found.size(); ++r)
        if (!found[r])
          saccade::fail("rank {} of {} has not come within {:.0f} s", r, options_.size, options_.timeout_s);
    }
    if (::poll(&ready, 1, std::max(1, static_cast<int>(left * 1e3))) <= 0) continue;
    auto peer = std::make_unique<Peer>();
    peer->socket = ::accept4(listener.socket(), nullptr, nullptr, SOCK_CLOEXEC);
    if (peer->socket < 0) continue;
    // A stranger may say nothing, or anything.
    const timeval patience{2, 0};
    ::setsockopt(peer->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    char header[kHeader + sizeof(uint64_t) + sizeof(int32_t) + 64] = {};
    if (::recv(peer->socket, header, sizeof(header), MSG_WAITALL) != static_cast<ssize_t>(sizeof(header)) ||
        header[0] != kHello)
      continue;
    uint64_t token;
    int32_t rank;
    std::memcpy(&token, header + kHeader, sizeof(token));
    std::memcpy(&rank, header + kHeader + sizeof(token), sizeof(rank));
    if (token != options_.token || rank < 1 || rank >= options_.size || found[static_cast<size_t>(rank)])
      continue;
    peer->rank = rank;
    peer->name.assign(header + sizeof(header) - 64, ::strnlen(header + sizeof(header) - 64, 64));
    no_delay(peer->socket);
    found[static_cast<size_t>(rank)] = std::move(peer);
    --missing;
  }
  for (size_t r = 1; r < found.size(); ++r) {
    found[r]->send(frame(kHello, own_name()));
    peers_.push_back(std::move(found[r]));
  }
}

void RankChannel::connect_to_first() {
  const Clock::time_point start = Clock::now();
  auto peer = std::make_unique<Peer>();
  std::string why = "nobody listens";
  while (peer->socket < 0) {
    addrinfo hints = {}, *found = nullptr;
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    const int problem =
        ::getaddrinfo(options_.host.c_str(), std::to_string(options_.port).c_str(), &hints, &found);
    if (problem != 0) why = ::gai_strerror(problem);
    for (addrinfo* a = found; a && peer->socket < 0; a = a->ai_next) {
      const int s = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (s >= 0 && ::connect(s, a->ai_addr, a->ai_addrlen) == 0) {
        peer->socket = s;
      } else {
        why = std::strerror(errno);
        if (s >= 0) ::close(s);
      }
    }
    if (found) ::freeaddrinfo(found);
    if (peer->socket >= 0) break;
    if (seconds_since_time(start) > options_.timeout_s)
      saccade::fail("rank {} of {} cannot reach rank 0 at {}:{}: {}", options_.rank, options_.size,
                    options_.host, options_.port, why);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  no_delay(peer->socket);
  std::string hello;
  append(hello, options_.token);
  append(hello, static_cast<int32_t>(options_.rank));
  std::string name = own_name().substr(0, 63);
  name.resize(64, '\0');
  peer->send(frame(kHello, hello + name));
  // Rank 0 answers when all are there.
  const timeval patience{static_cast<time_t>(options_.timeout_s) + 2, 0};
  ::setsockopt(peer->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char header[kHeader];
  uint64_t size = 0;
  bool whole = ::recv(peer->socket, header, kHeader, MSG_WAITALL) == static_cast<ssize_t>(kHeader);
  if (whole) std::memcpy(&size, header + 1, sizeof(size));
  whole = whole && header[0] == kHello && size < 512;
  peer->name.resize(whole ? size : 0);
  if (!whole || ::recv(peer->socket, peer->name.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size))
    saccade::fail("rank {} of {}: rank 0 at {}:{} does not answer", options_.rank, options_.size,
                  options_.host, options_.port);
  peers_.push_back(std::move(peer));
}

void RankChannel::watch() {
  constexpr double kBeatSeconds = 1;
  Clock::time_point beaten = Clock::now() - std::chrono::hours(1), looked = Clock::now();
  std::vector<pollfd> sockets;
  for (const auto& peer : peers_) sockets.push_back({peer->socket, POLLIN, 0});
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    ::poll(sockets.data(), sockets.size(), 100);
    // This process was stopped, or its machine was: the others' silence says nothing.
    const bool slept = seconds_since_time(looked) > 2 * kBeatSeconds;
    looked = Clock::now();
    for (size_t i = 0; i < peers_.size(); ++i) {
      Peer& peer = *peers_[i];
      if (slept) peer.heard = Clock::now();
      if (sockets[i].revents != 0) receive(peer);
      if (peer.done || peer.socket < 0) sockets[i].fd = -1;
      if (!peer.done && seconds_since_time(peer.heard) > options_.timeout_s)
        lost(peer, fmt::format("has been silent for {:.0f} s", options_.timeout_s));
    }
    if (seconds_since_time(beaten) < kBeatSeconds) continue;
    beaten = Clock::now();
    for (const auto& peer : peers_)
      if (!peer->done) peer->try_send(frame(kBeat, ""));
  }
}

void RankChannel::receive(Peer& peer) {
  char buffer[1 << 16];
  const ssize_t bytes = ::recv(peer.socket, buffer, sizeof(buffer), MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes <= 0) {
    if (!peer.done) lost(peer, "has ended");
    return;
  }
  peer.heard = Clock::now();
  peer.input.append(buffer, static_cast<size_t>(bytes));
  size_t at = 0;
  while (peer.input.size() - at >= kHeader) {
    uint64_t size;
    std::memcpy(&size, peer.input.data() + at + 1, sizeof(size));
    if (size > kMostBytes) return lost(peer, "sends what is no message");
    if (peer.input.size() - at - kHeader < size) break;
    handle(peer, peer.input[at], peer.input.substr(at + kHeader, size));
    at += kHeader + size;
  }
  peer.input.erase(0, at);
}

void RankChannel::handle(Peer& peer, char kind, std::string body) {
  if (kind == kFail) {
    size_t at = 0;
    const int status = take<int32_t>(body, at);
    const std::string line = body.substr(at);
    // All ranks throw what they agree on, which names its rank itself.
    const bool is_named = line.starts_with("rank ");
    if (options_.rank == 0) end_all(is_named ? line : fmt::format("rank {}: {}", peer.rank, line), status);
    ::_exit(status);  // rank 0 has printed it
  }
  std::lock_guard lock(mutex_);
  if (kind == kDone) peer.done = true;
  if (kind == kPart || kind == kAll) peer.parts.push_back(std::move(body));
  arrived_.notify_all();
}

void RankChannel::lost(const Peer& peer, const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
  const std::string line =
      fmt::format("rank {} of {} ({}) {}; the run goes on from its last checkpoint with --resume", peer.rank,
                  options_.size, peer.name, why);
  if (options_.rank == 0) end_all(line, 1);
  // The others of rank 0 see the same.
  if (options_.rank == 1) print_line(line);
  ::_exit(1);
}

void RankChannel::end_all(const std::string& line, int status) {
  print_line(line);
  std::string body;
  append(body, static_cast<int32_t>(status));
  for (const auto& peer : peers_) peer->try_send(frame(kFail, body));
  ::_exit(status);
}

std::vector<std::string> RankChannel::exchange(const std::string& part, bool to_all) {
  auto next_of = [&](Peer& peer) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !peer.parts.empty(); });
    std::string body = std::move(peer.parts.front());
    peer.parts.pop_front();
    return body;
  };
  std::vector<std::string> all;
  if (options_.rank == 0) {
    all.push_back(part);
    for (const auto& peer : peers_) all.push_back(next_of(*peer));
    if (!to_all) return all;
    std::string body;
    for (const std::string& one : all) {
      append(body, static_cast<uint64_t>(one.size()));
      body += one;
    }
    const std::string message = frame(kAll, body);
    for (const auto& peer : peers_) peer->send(message);  // who is gone is noticed by the thread
    return all;
  }
  peers_[0]->send(frame(kPart, part));
  if (!to_all) return all;
  const std::string body = next_of(*peers_[0]);
  for (size_t at = 0; at < body.size();) {
    const auto size = static_cast<size_t>(take<uint64_t>(body, at));
    all.push_back(body.substr(at, size));
    at += size;
  }
  SACCADE_CHECK(std::ssize(all) == options_.size, "[ranks] a message of {} parts, expected {}", all.size(),
                options_.size);
  return all;
}

void RankChannel::fail(const std::string& line, int status) {
  std::string body;
  append(body, static_cast<int32_t>(status));
  if (options_.rank == 0) {
    for (const auto& peer : peers_) peer->try_send(frame(kFail, body));
    std::lock_guard lock(mutex_);
    stopping_ = true;
    return;
  }
  peers_[0]->send(frame(kFail, body + line));
  std::this_thread::sleep_for(
      std::chrono::duration<double>(options_.timeout_s));  // the answer ends the process
  print_line(line);
  ::_exit(status);
}

void RankChannel::finish() {
  exchange("");
  for (const auto& peer : peers_) peer->send(frame(kDone, ""));
  std::unique_lock lock(mutex_);
  arrived_.wait(lock,
                [&] { return std::all_of(peers_.begin(), peers_.end(), [](auto& p) { return p->done; }); });
  finished_ = true;
}

}  // namespace saccade
