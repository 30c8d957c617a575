// One connection of the HTTP server, on Boost.Beast: its requests one after another, each within its time
// limit. For http_server.cpp only.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/files/text.h"
#include "train/serve/http_server.h"

namespace saccade {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Failure = boost::system::error_code;

inline constexpr uint32_t kMaxHead = 16384;
// A refused client may still be sending: for this long, its data are read and discarded, so that a reset does
// not lose the answer.
inline constexpr std::chrono::milliseconds kLinger{2000};

inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Shared by the connections. Only the server's thread uses it, except for the counter.
struct HttpShared {
  HttpServerOptions options;
  HttpHandler* handler = nullptr;
  bool is_stopping = false;
  std::set<class HttpConnection*> connections;
  std::atomic<size_t> count{0};
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(tcp::socket socket, HttpShared& shared)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), shared_(shared) {
    shared_.connections.insert(this);
    shared_.count = shared_.connections.size();
    Failure ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
  }
  ~HttpConnection() {
    *is_gone_ = true;
    shared_.connections.erase(this);
    shared_.count = shared_.connections.size();
  }

  void start() {
    if (shared_.connections.size() > shared_.options.max_connections)
      return answer_ourselves(busy_answer("too many connections"));
    wait_for_request();
  }

  void stop() {
    if (state_ == State::kIdle) return close();
    if (state_ != State::kReading) return;
    why_cancelled_ = State::kStopped;
    cancel();
  }

 private:
  enum class State { kIdle, kReading, kServed, kAnswering, kLingering, kTimedOut, kStopped };

  // Wraps handler(connection, failure) so that the connection stays alive for it.
  template <class F>
  auto guarded(F handler) {
    return [self = shared_from_this(), handler](Failure failure, size_t = 0) { handler(*self, failure); };
  }

  void limit_time(std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait(guarded([](HttpConnection& c, Failure failure) {
      const bool is_late = c.timer_.expiry() > std::chrono::steady_clock::now();  // the timer was set again
      if (failure || is_late || c.state_ == State::kServed) return;
      if (c.state_ != State::kReading) return c.close();
      c.why_cancelled_ = State::kTimedOut;
      c.cancel();
    }));
  }
  void cancel() {
    Failure ignored;
    socket_.cancel(ignored);
  }
  void close() {
    timer_.cancel();
    *is_gone_ = true;
    Failure ignored;
    socket_.close(ignored);
  }

  void wait_for_request() {
    if (shared_.is_stopping) return close();
    state_ = State::kIdle;
    why_cancelled_ = State::kIdle;
    limit_time(shared_.options.timeout);
    if (buffer_.size() > 0) return read_head();
    socket_.async_wait(tcp::socket::wait_read, guarded([](HttpConnection& c, Failure failure) {
                         if (!failure && c.socket_.is_open()) c.read_head();
                       }));
  }

  void read_head() {
    state_ = State::kReading;
    limit_time(shared_.options.timeout);
    parser_.emplace();
    parser_->header_limit(kMaxHead);
    parser_->body_limit(shared_.options.max_bytes);
    http::async_read_header(socket_, buffer_, *parser_, guarded([](HttpConnection& c, Failure failure) {
                              if (!c.has_failed(failure)) c.take_head();
                            }));
  }

  // Whether reading ended before everything arrived; tells the client if that is possible.
  bool has_failed(Failure failure) {
    if (!failure) return false;
    if (failure == asio::error::operation_aborted && why_cancelled_ == State::kTimedOut)
      answer_ourselves(error_answer(408, fmt::format("the request was incomplete after {} s",
                                                     shared_.options.timeout.count() / 1000.0)));
    else if (failure == asio::error::operation_aborted && why_cancelled_ == State::kStopped)
      answer_ourselves(busy_answer("the service is stopping"));
    else if (failure == http::error::body_limit)
      answer_ourselves(
          error_answer(413, fmt::format("the body has more than {} bytes", shared_.options.max_bytes)));
    else if (failure == http::error::header_limit)
      answer_ourselves(error_answer(431, fmt::format("the header has more than {} bytes", kMaxHead)));
    else if (failure == http::error::partial_message)
      answer_ourselves(error_answer(400, "the request is cut off"));
    else if (failure != http::error::end_of_stream &&
             failure.category() == http::make_error_code(http::error::bad_method).category())
      answer_ourselves(error_answer(400, fmt::format("this is not HTTP/1.1: {}", failure.message())));
    else
      close();
    return true;
  }

  // Joins a field that appears several times into one list.
  std::string field(http::field name) const {
    std::string list;
    for (auto [at, end] = parser_->get().equal_range(name); at != end; ++at)
      list.append(list.empty() ? "" : ", ").append(at->value().data(), at->value().size());
    return list;
  }

  ServiceRequest request() const {
    const auto& message = parser_->get();
    const auto method = message.method_string(), target = message.target();
    ServiceRequest out;
    out.method = std::string(method.data(), method.size());
    out.target = std::string(target.data(), target.size());
    out.content_type = field(http::field::content_type);
    out.content_encoding = field(http::field::content_encoding);
    out.accept = field(http::field::accept);
    out.is_gone = is_gone_;
    return out;
  }

  // Refuses a head that another server on the way may interpret differently (RFC 9112, 3.2 and 6.1), or that
  // announces a body that is not read here.
  std::optional<ServiceAnswer> refuse_framing() const {
    const auto& message = parser_->get();
    if (const size_t hosts = message.count(http::field::host); speaks_1_1_ ? hosts != 1 : hosts > 1)
      return error_answer(400, fmt::format("the header has {} \"Host\" fields, expected one", hosts));
    const std::string coding = lower_case(field(http::field::transfer_encoding));
    if (message.count(http::field::transfer_encoding) == 0 || (coding == "chunked" && speaks_1_1_))
      return std::nullopt;
    const bool has_end = speaks_1_1_ && (coding.ends_with(",chunked") || coding.ends_with(" chunked"));
    return error_answer(has_end ? 501 : 400,
                        fmt::format("Transfer-Encoding: {}, expected chunked{}", printable(coding),
                                    speaks_1_1_ ? "" : " and HTTP/1.1"));
  }

  void take_head() {
    const auto& message = parser_->get();
    is_head_ = message.method() == http::verb::head;
    speaks_1_1_ = message.version() == 11;
    if (const std::optional<ServiceAnswer> refusal = refuse_framing()) return answer_ourselves(*refusal);
    if (const std::optional<ServiceAnswer> refusal = shared_.handler->refuse(request())) {
      // The unread body would be taken for the next request.
      if (!parser_->is_done()) return answer_ourselves(*refusal);
      keeps_alive_ = message.keep_alive();
      shared_.handler->count(refusal->status);
      return write(*refusal);
    }
    if (lower_case(field(http::field::expect)) == "100-continue" && speaks_1_1_ && !parser_->is_done())
      return asio::async_write(socket_, asio::buffer(kContinue),
                               guarded([](HttpConnection& c, Failure failure) {
                                 if (!c.has_failed(failure)) c.read_body();
                               }));
    read_body();
  }

  void read_body() {
    http::async_read(socket_, buffer_, *parser_, guarded([](HttpConnection& c, Failure failure) {
                       if (!c.has_failed(failure)) c.serve();
                     }));
  }

  void serve() {
    state_ = State::kServed;
    timer_.cancel();
    keeps_alive_ = parser_->get().keep_alive();
    ServiceRequest whole = request();
    whole.body = std::move(parser_->get().body());
    parser_.reset();
    ++turn_;
    watch();
    // The handler must not end the connection: it is handed back to this thread as a whole.
    shared_.handler->handle(std::move(whole), [kept = shared_from_this()](ServiceAnswer answer) mutable {
      const auto executor = kept->socket_.get_executor();
      asio::post(executor, [self = std::move(kept), answer = std::move(answer)] {
        self->shared_.handler->count(answer.status);
        self->cancel();  // ends the watch
        self->write(answer);
      });
    });
  }

  // Calls handler(connection) when the socket is ready for `what`, as long as this request is being served.
  template <class F>
  void wait_while_served(tcp::socket::wait_type what, F handler) {
    socket_.async_wait(what, guarded([turn = turn_, handler](HttpConnection& c, Failure failure) {
                         if (!failure && c.state_ == State::kServed && c.turn_ == turn) handler(c);
                       }));
  }
  // Notices a client that disconnects while it is being served.
  void watch() {
    if (buffer_.size() > 0) return;
    wait_while_served(tcp::socket::wait_read, [](HttpConnection& c) {
      char byte = 0;
      Failure problem;
      c.socket_.non_blocking(true, problem);
      c.socket_.receive(asio::buffer(&byte, 1), tcp::socket::message_peek, problem);
      if (problem == asio::error::eof)
        c.watch_half_closed();
      else if (problem && problem != asio::error::would_block)
        c.close();
    });
  }
  // The client sends nothing more. Whether it still listens shows when something is sent to it: the system of
  // a client that is gone resets the connection. Clients ignore this answer, which HTTP/1.0 does not know.
  void watch_half_closed() {
    if (!speaks_1_1_) return;
    Failure problem;
    const size_t sent = socket_.send(asio::buffer(kContinue), 0, problem);
    if (problem == asio::error::would_block) return;
    if (problem || sent != kContinue.size()) return close();
    wait_while_served(tcp::socket::wait_error, [](HttpConnection& c) { c.close(); });
  }

  // Answers without asking the handler, and ends the connection.
  void answer_ourselves(const ServiceAnswer& answer) {
    keeps_alive_ = false;
    shared_.handler->count(answer.status);
    write(answer);
  }

  void write(const ServiceAnswer& answer) {
    if (!socket_.is_open()) return;
    state_ = State::kAnswering;
    limit_time(shared_.options.timeout);
    keeps_alive_ = keeps_alive_ && !shared_.is_stopping;
    auto message = std::make_shared<http::response<http::string_body> >();
    message->result(static_cast<unsigned>(answer.status));
    message->set(http::field::server, "saccade");
    message->set(http::field::content_type, answer.type);
    message->set("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : answer.headers) message->set(name, value);
    message->keep_alive(keeps_alive_);
    message->content_length(answer.body.size());
    if (!is_head_) message->body() = answer.body;
    serializer_.emplace(*message);
    serializer_->split(is_head_);
    auto finish = guarded([message](HttpConnection& c, Failure failure) { c.has_written(failure); });
    if (is_head_)
      http::async_write_header(socket_, *serializer_, finish);
    else
      http::async_write(socket_, *serializer_, finish);
  }

  void has_written(Failure failure) {
    serializer_.reset();
    is_head_ = false;
    if (failure) return close();
    if (keeps_alive_) return wait_for_request();
    state_ = State::kLingering;
    Failure ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    limit_time(kLinger);
    linger();
  }
  void linger() {
    socket_.async_read_some(asio::buffer(rest_), guarded([](HttpConnection& c, Failure failure) {
                              if (failure)
                                c.close();
                              else
                                c.linger();
                            }));
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  HttpShared& shared_;
  boost::beast::flat_buffer buffer_{kMaxHead + 65536};
  std::optional<http::request_parser<http::string_body> > parser_;
  std::optional<http::response_serializer<http::string_body> > serializer_;
  State state_ = State::kIdle, why_cancelled_ = State::kIdle;
  bool keeps_alive_ = false, is_head_ = false, speaks_1_1_ = false;
  uint64_t turn_ = 0;  // number of requests served
  std::shared_ptr<std::atomic<bool> > is_gone_ = std::make_shared<std::atomic<bool> >(false);
  std::array<char, 16384> rest_{};
};

}  // namespace saccade
