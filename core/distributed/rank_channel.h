// The TCP connections between rank 0 and the other ranks of a job: for few and small things that are no
// tensors, and to notice a rank that has died or hangs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace saccade {

// The socket on which rank 0 waits for the others.
class RankListener {
 public:
  // port 0: one that is free. `local`: only processes of this machine can connect. Throws Error.
  RankListener(int port, bool local);
  ~RankListener();
  RankListener& operator=(RankListener&&) = delete;
  int port() const { return port_; }
  int socket() const { return socket_; }

 private:
  int socket_ = -1, port_ = 0;
};

// A thread sends a sign of life every second and waits for those of others. When a rank is silent for
// timeout_s seconds, or its connection ends before finish(), rank 0 says so in one line on stderr (if it is
// rank 0, rank 1 does) and every process ends with status 1: what hangs in a computation or a library cannot
// be ended in another way.
class RankChannel {
 public:
  struct Options {
    int rank = 0, size = 1;
    std::string host;    // of rank 0
    int port = 0;        // ranks above 0
    uint64_t token = 0;  // of the job: connections of strangers are closed
    double timeout_s = 20;
  };
  // Rank 0 (listener is its own) waits for all others, the others for rank 0.
  // Throws Error naming who did not come in time.
  RankChannel(const Options& options, const RankListener* listener);
  ~RankChannel();
  RankChannel& operator=(RankChannel&&) = delete;

  // What every rank gives, in the order of the ranks. With to_all false only rank 0 receives it, the others
  // nothing. All ranks call it in the same order; one thread at a time.
  std::vector<std::string> exchange(const std::string& part, bool to_all = true);
  // Ends the job because of an error of this rank: rank 0 prints the line, "rank 1: ..." for one of another
  // (unless it fails itself within a second: then its own), and all processes end with the status. Returns on
  // rank 0 only, which prints its own line; the others know then.
  void fail(const std::string& line, int status);
  // Asked every second, on the channel's thread, for what is wrong with this rank and its computing thread
  // may wait for in vain: a line that ends the job as fail() does, with status 1, or "".
  // An empty function: no longer.
  void watch_for(std::function<std::string()> problem);
  // The work is done: from now on the others may end. All ranks call it.
  void finish();

 private:
  struct Peer;
  void connect_to_all(const RankListener& listener);
  void connect_to_first();
  std::optional<bool> greeting_of(Peer& stranger) const;
  void watch();
  void receive(Peer& peer);
  void handle(Peer& peer, char kind, std::string body);
  bool report_problem();
  void lost(const Peer& peer, const std::string& why);
  [[noreturn]] void end_all(const std::string& line, int status);

  Options options_;
  std::vector<std::unique_ptr<Peer>> peers_;  // of rank 0: all others; of others: rank 0
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::function<std::string()> problem_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace saccade
