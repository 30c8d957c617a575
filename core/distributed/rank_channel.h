// The TCP connections between rank 0 and the other ranks of a job, for small and rare messages other than
// tensors, and to detect a rank that has died or hangs.
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
  // port 0 means any free port. With `local`, only processes of this machine can connect. Throws Error.
  RankListener(int port, bool local);
  ~RankListener();
  RankListener& operator=(RankListener&&) = delete;
  int port() const { return port_; }
  int socket() const { return socket_; }

 private:
  int socket_ = -1, port_ = 0;
};

// A thread sends a heartbeat every second and expects those of the others. If a rank is silent for timeout_s
// seconds, or its connection ends before finish(), rank 0 reports it in one line on stderr (rank 1 does if
// rank 0 is lost), and every process exits with status 1: nothing else can end a process that hangs in a
// computation or a library.
class RankChannel {
 public:
  struct Options {
    int rank = 0, size = 1;
    std::string host;    // host of rank 0
    int port = 0;        // on ranks above 0
    uint64_t token = 0;  // identifies the job: connections from strangers are closed
    double timeout_s = 20;
  };
  // Rank 0, which has the listener, waits for all others; the others connect to rank 0. Throws Error naming
  // the ranks that did not come in time.
  RankChannel(const Options& options, const RankListener* listener);
  ~RankChannel();
  RankChannel& operator=(RankChannel&&) = delete;

  // Gathers every rank's value, ordered by rank; if to_all is false, only on rank 0 (the others get nothing).
  // All ranks call it in the same order, from one thread at a time.
  std::vector<std::string> exchange(const std::string& part, bool to_all = true);
  // Ends the job because of an error on this rank: rank 0 prints the line, as "rank 1: ..." for another
  // rank's (or, if it fails itself within a second, only its own), and all processes exit with the status.
  // Returns only on rank 0, which then prints its own line after the others have been told.
  void fail(const std::string& line, int status);
  // Sets a function that the channel's thread calls every second to ask for a problem of this rank for which
  // its computing thread may wait in vain. It returns "" or a line, which ends the job as fail() does, with
  // status 1. An empty function stops this.
  void watch_for(std::function<std::string()> problem);
  // Says that the work is done: from now on the others may exit. All ranks call it.
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
  std::vector<std::unique_ptr<Peer>> peers_;  // on rank 0 all others; elsewhere rank 0
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::function<std::string()> problem_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace saccade
