#include "core/distributed/rank_channel.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "core/distributed/rank_peer.h"

namespace saccade {

namespace {

void print_line(const std::string& line) {
  std::string text = "error: " + line;
  std::replace(text.begin(), text.end(), '\n', ' ');
  text += '\n';
  [[maybe_unused]] const ssize_t written = ::write(2, text.data(), text.size());
}

}  // namespace

RankChannel::RankChannel(const Options& options, const RankListener* listener) : options_(options) {
  if (options_.rank == 0)
    connect_to_all(*listener);
  else
    connect_to_first();
  for (const auto& peer : peers_) peer->heard = RankClock::now();
  thread_ = std::thread([this] { watch(); });
}

RankChannel::~RankChannel() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void RankChannel::watch() {
  constexpr double kBeatSeconds = 1;
  RankClock::time_point beaten = RankClock::now() - std::chrono::hours(1), looked = RankClock::now();
  bool reported = false;
  std::vector<pollfd> sockets;
  for (const auto& peer : peers_) sockets.push_back({peer->socket, POLLIN, 0});
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    ::poll(sockets.data(), sockets.size(), 100);
    // This process or its machine was suspended, so the others' silence means nothing.
    const bool slept = seconds_since_time(looked) > 2 * kBeatSeconds;
    looked = RankClock::now();
    for (size_t i = 0; i < peers_.size(); ++i) {
      Peer& peer = *peers_[i];
      if (slept) peer.heard = RankClock::now();
      if (sockets[i].revents != 0) receive(peer);
      if (peer.done || peer.socket < 0) sockets[i].fd = -1;
      if (!peer.done && seconds_since_time(peer.heard) > options_.timeout_s)
        lost(peer, fmt::format("has been silent for {:.0f} s", options_.timeout_s));
    }
    if (seconds_since_time(beaten) < kBeatSeconds) continue;
    beaten = RankClock::now();
    for (const auto& peer : peers_)
      if (!peer->done) peer->try_send(rank_frame(kRankBeat, ""));
    if (!reported) reported = report_problem();
  }
}

bool RankChannel::report_problem() {
  std::string line;
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || !problem_) return false;
    line = problem_();
  }
  if (line.empty()) return false;
  if (options_.rank == 0) end_all(fmt::format("rank 0: {}", line), 1);
  std::string body;
  append_bytes(body, int32_t{1});
  peers_[0]->send(rank_frame(kRankFail, body + line));  // the answer ends this process
  return true;
}

void RankChannel::watch_for(std::function<std::string()> problem) {
  std::lock_guard lock(mutex_);
  problem_ = std::move(problem);
}

void RankChannel::receive(Peer& peer) {
  char buffer[1 << 16];
  const ssize_t bytes = ::recv(peer.socket, buffer, sizeof(buffer), MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes <= 0) {
    if (!peer.done) lost(peer, "has ended");
    return;
  }
  peer.heard = RankClock::now();
  peer.input.append(buffer, static_cast<size_t>(bytes));
  size_t at = 0;
  while (peer.input.size() - at >= kRankHeader) {
    uint64_t size;
    std::memcpy(&size, peer.input.data() + at + 1, sizeof(size));
    if (size > kMaxRankBytes) return lost(peer, "sent something that is not a message");
    if (peer.input.size() - at - kRankHeader < size) break;
    handle(peer, peer.input[at], peer.input.substr(at + kRankHeader, size));
    at += kRankHeader + size;
  }
  peer.input.erase(0, at);
}

void RankChannel::handle(Peer& peer, char kind, std::string body) {
  if (kind == kRankFail) {
    size_t at = 0;
    const int status = take_bytes<int32_t>(body, at);
    const std::string line = body.substr(at);
    if (options_.rank == 0) {
      // An error that affects all ranks is found by rank 0 itself within a moment; then it is not another
      // rank's.
      std::unique_lock lock(mutex_);
      const bool is_own = arrived_.wait_for(lock, std::chrono::seconds(1), [&] { return stopping_; });
      lock.unlock();
      if (is_own) return;
      // All ranks throw the errors on which they agree; these already name the rank.
      const bool is_named = line.starts_with("rank ");
      end_all(is_named ? line : fmt::format("rank {}: {}", peer.rank, line), status);
    }
    ::_exit(status);  // rank 0 has printed it
  }
  std::lock_guard lock(mutex_);
  if (kind == kRankDone) peer.done = true;
  if (kind == kRankPart || kind == kRankAll) peer.parts.push_back(std::move(body));
  arrived_.notify_all();
}

void RankChannel::lost(const Peer& peer, const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
  const std::string line =
      fmt::format("rank {} of {} ({}) {}; --resume continues the run from its last checkpoint", peer.rank,
                  options_.size, peer.name, why);
  if (options_.rank == 0) end_all(line, 1);
  // Rank 0 is lost; all other ranks see it, so only rank 1 reports it.
  if (options_.rank == 1) print_line(line);
  ::_exit(1);
}

void RankChannel::end_all(const std::string& line, int status) {
  print_line(line);
  std::string body;
  append_bytes(body, static_cast<int32_t>(status));
  for (const auto& peer : peers_) peer->try_send(rank_frame(kRankFail, body));
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
      append_bytes(body, static_cast<uint64_t>(one.size()));
      body += one;
    }
    const std::string message = rank_frame(kRankAll, body);
    for (const auto& peer : peers_) peer->send(message);  // the thread notices a lost peer
    return all;
  }
  peers_[0]->send(rank_frame(kRankPart, part));
  if (!to_all) return all;
  const std::string body = next_of(*peers_[0]);
  for (size_t at = 0; at < body.size();) {
    const auto size = static_cast<size_t>(take_bytes<uint64_t>(body, at));
    all.push_back(body.substr(at, size));
    at += size;
  }
  SACCADE_CHECK(std::ssize(all) == options_.size, "[ranks] a message of {} parts, expected {}", all.size(),
                options_.size);
  return all;
}

void RankChannel::fail(const std::string& line, int status) {
  std::string body;
  append_bytes(body, static_cast<int32_t>(status));
  if (options_.rank == 0) {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    arrived_.notify_all();
    // Only now: the others exit at once and must not count as lost.
    const timeval limit{2, 0};  // for a peer that was suspended
    for (const auto& peer : peers_) {
      ::setsockopt(peer->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
      peer->send(rank_frame(kRankFail, body));
    }
    return;
  }
  peers_[0]->send(rank_frame(kRankFail, body + line));
  std::this_thread::sleep_for(
      std::chrono::duration<double>(options_.timeout_s));  // the answer ends the process
  print_line(line);
  ::_exit(status);
}

void RankChannel::finish() {
  exchange("");
  for (const auto& peer : peers_) peer->send(rank_frame(kRankDone, ""));
  std::unique_lock lock(mutex_);
  arrived_.wait(lock,
                [&] { return std::all_of(peers_.begin(), peers_.end(), [](auto& p) { return p->done; }); });
}

}  // namespace saccade
