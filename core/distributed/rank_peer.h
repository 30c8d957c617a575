// One connection of a RankChannel and its messages, for rank_channel.cpp and rank_connections.cpp.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "core/distributed/rank_channel.h"
#include "core/tensor/error.h"

namespace saccade {
using RankClock = std::chrono::steady_clock;

inline double seconds_since_time(RankClock::time_point then) {
  return std::chrono::duration<double>(RankClock::now() - then).count();
}

// Frames: a kind, the length of the body, and the body.
inline constexpr char kRankHello = 'H', kRankBeat = 'B', kRankPart = 'P', kRankAll = 'A', kRankFail = 'F',
                      kRankDone = 'D';
inline constexpr size_t kRankHeader = 9;
inline constexpr uint64_t kMaxRankBytes = uint64_t{1} << 32;

inline std::string rank_frame(char kind, const std::string& body) {
  std::string out(kRankHeader, kind);
  const uint64_t size = body.size();
  std::memcpy(out.data() + 1, &size, sizeof(size));
  return out + body;
}

template <class T>
void append_bytes(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
template <class T>
T take_bytes(const std::string& in, size_t& at) {
  T value{};
  if (at + sizeof(T) > in.size()) fail("[ranks] a message is cut short");
  std::memcpy(&value, in.data() + at, sizeof(T));
  at += sizeof(T);
  return value;
}

struct RankChannel::Peer {
  int rank = 0, socket = -1;
  std::string name;  // "process 12 on host"
  std::mutex sending;
  std::string input;              // bytes of an incomplete frame
  std::deque<std::string> parts;  // of exchanges that were not asked for yet
  RankClock::time_point heard = RankClock::now();
  bool done = false;  // it needs no other rank any more
  ~Peer() {
    if (socket >= 0) ::close(socket);
  }

  // Waits for room. Returns false if the connection is lost.
  bool send(const std::string& bytes) {
    std::lock_guard lock(sending);
    const std::string rest = std::exchange(rest_, "");
    return write(rest, 0) == rest.size() && write(bytes, 0) == bytes.size();
  }
  // Never waits: a peer that cannot receive this has worse problems. The rest of a frame that was begun is
  // sent before the next frame.
  void try_send(const std::string& bytes) {
    std::unique_lock lock(sending, std::try_to_lock);
    if (!lock.owns_lock()) return;
    rest_.erase(0, write(rest_, MSG_DONTWAIT));
    if (!rest_.empty()) return;
    if (const size_t sent = write(bytes, MSG_DONTWAIT); sent > 0) rest_ = bytes.substr(sent);
  }

 private:
  // Returns the number of bytes that were sent.
  size_t write(const std::string& bytes, int flags) const {
    size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t sent = ::send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL | flags);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) break;
      at += static_cast<size_t>(sent);
    }
    return at;
  }
  std::string rest_;  // rest of a frame that was begun
};

}  // namespace saccade
