// The HTTP server of a service: HTTP/1.1 on a socket, for clients that may be slow, rude or gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "train/serve/http.h"

namespace saccade {

struct HttpServerOptions {
  std::string host = "127.0.0.1";           // an address of this machine, or localhost
  uint16_t port = 8080;                     // 0: any free port
  uint64_t max_bytes = uint64_t{20} << 20;  // of a body
  // The time limit for reading a request from its first byte on, for a connection to bring the next one, and
  // for a client to accept an answer.
  std::chrono::milliseconds timeout{30000};
  size_t max_connections = 256;
};

class HttpServer {
 public:
  // Listens. Throws InputError if it cannot: the port is taken, or the address is another machine's. Nothing
  // is answered before start().
  HttpServer(const HttpServerOptions& options, HttpHandler& handler);
  // Ends at once and drains the handler.
  ~HttpServer();
  HttpServer& operator=(HttpServer&&) = delete;

  std::string address() const;  // "127.0.0.1:8080"
  uint16_t port() const;
  bool is_loopback() const;

  void start();
  // Accepts no new connections; those that wait for an answer get it, as long as the handler gives one; those
  // whose request is incomplete are sent away.
  void stop();
  size_t connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace saccade
