// A small HTTP server for tests: a function answers each request, with any faults that it chooses.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace saccade {

class FaultyServer {
 public:
  struct Request {
    std::string path;
    std::string text;  // the whole request, in lower case
    // Returns -1 if there is no Range.
    int64_t offset() const {
      const std::string key = "range: bytes=";
      const size_t at = text.find("\r\n" + key);
      return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + 2 + key.size());
    }
    bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
  };
  class Connection {
   public:
    explicit Connection(int socket) : socket_(socket) {}
    // Returns false if the client is gone.
    bool send(std::string_view bytes) const {
      while (!bytes.empty()) {
        const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n <= 0) return false;
        bytes.remove_prefix(static_cast<size_t>(n));
      }
      return true;
    }
    // Sends the whole answer; `cut`: sends only this many bytes of the body.
    void answer(const std::string& status, const std::string& headers, std::string_view body,
                size_t cut = std::string::npos) const {
      send("HTTP/1.1 " + status + "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n" + headers + "\r\n");
      send(body.substr(0, cut));
    }
    // Waits until the client closes its end, at most some seconds.
    void wait_for_end() const {
      timeval most{10, 0};
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
      char byte;
      while (::recv(socket_, &byte, 1, 0) > 0) {
      }
    }

   private:
    int socket_;
  };
  using Handler = std::function<void(const Request&, const Connection&)>;

  explicit FaultyServer(Handler handler) : handler_(std::move(handler)) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(socket_, 16);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~FaultyServer() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    for (std::thread& answering : answering_) answering.join();
    ::close(socket_);
  }
  FaultyServer(const FaultyServer&) = delete;
  FaultyServer& operator=(const FaultyServer&) = delete;

  std::string url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  std::vector<Request> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (int client; (client = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
      answering_.emplace_back([this, client] {
        Request request;
        char piece[4096];
        while (request.text.find("\r\n\r\n") == std::string::npos) {
          const ssize_t n = ::recv(client, piece, sizeof piece, 0);
          if (n <= 0) break;
          request.text.append(piece, static_cast<size_t>(n));
        }
        const size_t begin = request.text.find(' ') + 1;
        request.path = request.text.substr(begin, request.text.find(' ', begin) - begin);
        for (char& c : request.text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        {
          std::lock_guard lock(mutex_);
          requests_.push_back(request);
        }
        handler_(request, Connection(client));
        ::shutdown(client, SHUT_WR);
        ::close(client);
      });
  }

  Handler handler_;
  int socket_ = -1, port_ = 0;
  std::thread thread_;
  std::vector<std::thread> answering_;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
};

// Serves a file like a correct server: whole, or from an offset if the file is still the same; `cut` as for
// Connection.
inline void serve_file(const FaultyServer::Request& request, const FaultyServer::Connection& connection,
                       const std::string& file, const std::string& tag, size_t cut = std::string::npos) {
  const int64_t offset = request.offset();
  const std::string headers = "ETag: \"" + tag + "\"\r\nContent-Type: application/octet-stream\r\n";
  const bool is_same = !request.has("if-range: ") || request.has("if-range: \"" + tag + "\"");
  if (offset < 0 || !is_same) return connection.answer("200 OK", headers, file, cut);
  const auto begin = static_cast<size_t>(offset);
  if (begin >= file.size())
    return connection.answer("416 Range Not Satisfiable",
                             "Content-Range: bytes */" + std::to_string(file.size()) + "\r\n", "");
  connection.answer("206 Partial Content",
                    headers + "Content-Range: bytes " + std::to_string(begin) + "-" +
                        std::to_string(file.size() - 1) + "/" + std::to_string(file.size()) + "\r\n",
                    std::string_view(file).substr(begin), cut);
}

}  // namespace saccade
