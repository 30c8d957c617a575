// A client that may break any rule: it sends bytes on a socket of this machine.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/files/text.h"

namespace saccade {

struct HttpReply {
  int status = 0;                              // 0: the connection ended without a status
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class RawClient {
 public:
  explicit RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(port);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&place), sizeof(place)) == 0;
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool is_connected() const { return is_connected_; }

  // Returns false if the other side accepts no more.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // The other side reads an end; what it sends is still received.
  void end_sending() const { ::shutdown(socket_, SHUT_WR); }

  // Returns the next reply; has_body: false for the reply to HEAD.
  HttpReply receive(bool has_body = true) {
    HttpReply reply;
    while (rest_.find("\r\n\r\n") == std::string::npos)
      if (!more()) return reply;
    const size_t end = rest_.find("\r\n\r\n");
    std::string_view head = std::string_view(rest_).substr(0, end);
    reply.status = std::atoi(std::string(head.substr(head.find(' ') + 1, 3)).c_str());
    while (head.find("\r\n") != std::string_view::npos) {
      head.remove_prefix(head.find("\r\n") + 2);
      const std::string_view line = head.substr(0, head.find("\r\n"));
      const size_t colon = line.find(": ");
      reply.headers[lower_case(std::string(line.substr(0, colon)))] = line.substr(colon + 2);
    }
    rest_.erase(0, end + 4);
    if (!has_body || reply.status == 100) return reply;
    const auto size = static_cast<size_t>(std::atoll(reply.headers["content-length"].c_str()));
    while (rest_.size() < size)
      if (!more()) break;
    reply.body = rest_.substr(0, size);
    rest_.erase(0, size);
    return reply;
  }
  HttpReply ask(std::string_view bytes) {
    send(bytes);
    return receive();
  }
  // Whether the other side ends the connection, with nothing more to read.
  bool is_ended() { return rest_.empty() && !more(); }

 private:
  bool more() {
    pollfd poll{socket_, POLLIN, 0};
    constexpr int kPatience = 20000;  // milliseconds
    if (::poll(&poll, 1, kPatience) != 1) {
      ADD_FAILURE() << "no answer came";
      return false;
    }
    char bytes[65536];
    const ssize_t got = ::recv(socket_, bytes, sizeof(bytes), 0);
    if (got <= 0) return false;
    rest_.append(bytes, static_cast<size_t>(got));
    return true;
  }

  int socket_;
  bool is_connected_ = false;
  std::string rest_;
};

inline std::string http_post(const std::string& target, const std::string& type, const std::string& body,
                             const std::string& more_headers = "") {
  return "POST " + target + " HTTP/1.1\r\nHost: x\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + more_headers + "\r\n" + body;
}
inline std::string http_get(const std::string& target) {
  return "GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

}  // namespace saccade
