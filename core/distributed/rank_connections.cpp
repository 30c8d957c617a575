// How the ranks of a job find each other.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "core/distributed/rank_peer.h"

namespace saccade {

namespace {

constexpr size_t kNameBytes = 64, kGreeting = sizeof(uint64_t) + sizeof(int32_t) + kNameBytes;
constexpr double kGreetingSeconds = 10;  // a machine may stall for a while

std::string own_name() {
  char host[256] = "this machine";
  ::gethostname(host, sizeof(host) - 1);
  return fmt::format("process {} on {}", ::getpid(), host);
}

void no_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

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

// Whoever connects may be a stranger that sends nothing or anything, so all connections are served at once.
void RankChannel::connect_to_all(const RankListener& listener) {
  const RankClock::time_point start = RankClock::now();
  std::vector<std::unique_ptr<Peer>> found(static_cast<size_t>(options_.size)), strangers;
  for (int missing = options_.size - 1; missing > 0;) {
    if (seconds_since_time(start) > options_.timeout_s)
      for (size_t r = 1; r < found.size(); ++r)
        if (!found[r])
          saccade::fail("rank {} of {} has not connected within {:.0f} s", r, options_.size,
                        options_.timeout_s);
    std::vector<pollfd> sockets{{listener.socket(), POLLIN, 0}};
    for (const auto& stranger : strangers) sockets.push_back({stranger->socket, POLLIN, 0});
    const int ready = ::poll(sockets.data(), sockets.size(), 100);
    for (size_t i = 0; i < strangers.size(); ++i) {
      if (ready <= 0 || sockets[i + 1].revents == 0) {
        // A rank greets at once; a silent stranger would keep a slot that a rank needs.
        if (seconds_since_time(strangers[i]->heard) > kGreetingSeconds) strangers[i].reset();
        continue;
      }
      const std::optional<bool> known = greeting_of(*strangers[i]);
      if (!known) continue;
      auto& place = found[static_cast<size_t>(strangers[i]->rank)];
      if (*known && !place) {
        place = std::move(strangers[i]);
        --missing;
      }
      strangers[i].reset();
    }
    std::erase(strangers, nullptr);
    if (ready <= 0 || sockets[0].revents == 0) continue;
    auto stranger = std::make_unique<Peer>();
    stranger->socket = ::accept4(listener.socket(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (stranger->socket < 0)  // it has left again, or there are too many connections
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    else
      strangers.push_back(std::move(stranger));
  }
  for (size_t r = 1; r < found.size(); ++r) {
    const int socket = found[r]->socket;
    ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) & ~O_NONBLOCK);
    no_delay(socket);
    found[r]->send(rank_frame(kRankHello, own_name()));
    peers_.push_back(std::move(found[r]));
  }
}

// Reads more of a greeting. Returns whether the peer belongs to this job, or nothing while this is unknown.
std::optional<bool> RankChannel::greeting_of(Peer& stranger) const {
  char buffer[kRankHeader + kGreeting];
  const ssize_t bytes = ::recv(stranger.socket, buffer, sizeof(buffer) - stranger.input.size(), 0);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (bytes <= 0) return false;
  stranger.input.append(buffer, static_cast<size_t>(bytes));
  if (stranger.input.size() < sizeof(buffer)) return std::nullopt;
  const std::string hello = std::exchange(stranger.input, "");
  size_t at = kRankHeader;
  const bool is_ours = hello[0] == kRankHello && take_bytes<uint64_t>(hello, at) == options_.token;
  stranger.rank = is_ours ? take_bytes<int32_t>(hello, at) : 0;
  if (stranger.rank < 1 || stranger.rank >= options_.size) {
    stranger.rank = 0;
    return false;
  }
  stranger.name = hello.c_str() + at;
  return true;
}

void RankChannel::connect_to_first() {
  const RankClock::time_point start = RankClock::now();
  auto peer = std::make_unique<Peer>();
  std::string why = "nothing listens there";
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
  append_bytes(hello, options_.token);
  append_bytes(hello, static_cast<int32_t>(options_.rank));
  std::string name = own_name().substr(0, kNameBytes - 1);
  name.resize(kNameBytes, '\0');
  peer->send(rank_frame(kRankHello, hello + name));
  // Rank 0 answers once all ranks have connected.
  const RankClock::time_point asked = RankClock::now();
  auto read = [&](void* to, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
      pollfd ready{peer->socket, POLLIN, 0};
      if (seconds_since_time(asked) > options_.timeout_s + 2) return false;
      if (::poll(&ready, 1, 100) <= 0) continue;
      const ssize_t n = ::recv(peer->socket, static_cast<char*>(to) + at, bytes - at, MSG_DONTWAIT);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return true;
  };
  char header[kRankHeader];
  uint64_t size = 0;
  bool whole = read(header, kRankHeader);
  if (whole) std::memcpy(&size, header + 1, sizeof(size));
  whole = whole && header[0] == kRankHello && size < 512;
  peer->name.resize(whole ? size : 0);
  if (!whole || !read(peer->name.data(), size))
    saccade::fail("rank {} of {}: rank 0 at {}:{} does not answer", options_.rank, options_.size,
                  options_.host, options_.port);
  peers_.push_back(std::move(peer));
}

}  // namespace saccade
