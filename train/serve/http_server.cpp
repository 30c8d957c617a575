#include "train/serve/http_server.h"

#include "core/tensor/error.h"

#ifndef SACCADE_HTTP
namespace saccade {

class HttpServer::Impl {};
HttpServer::HttpServer(const HttpServerOptions&, HttpHandler&) {
  fail_input("saccade serve: this program was built without it, for lack of Boost's headers (libboost-dev)");
}
HttpServer::~HttpServer() = default;
std::string HttpServer::address() const { return ""; }
uint16_t HttpServer::port() const { return 0; }
bool HttpServer::is_loopback() const { return true; }
void HttpServer::start() {}
void HttpServer::stop() {}
size_t HttpServer::connections() const { return 0; }

}  // namespace saccade
#else

#include <exception>
#include <set>
#include <thread>

#include "train/logs/print.h"
#include "train/serve/http_connection.h"

namespace saccade {
namespace {

asio::ip::address address_of(const std::string& host) {
  if (host == "localhost") return asio::ip::address_v4::loopback();
  Failure failure;
  asio::ip::address address = asio::ip::make_address(host, failure);
  if (failure)
    fail_input(
        "--host: \"{}\" is not an IP address, expected one of this machine: 127.0.0.1, 0.0.0.0 (all), ::1 ...",
        shortened(host));
  return address;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, HttpHandler& handler) : acceptor_(io_), retry_(io_) {
    shared_.options = options;
    shared_.handler = &handler;
    const tcp::endpoint place(address_of(options.host), options.port);
    Failure failure;
    auto tried = [&](Failure result) {
      if (result)
        fail_input("--port {}: cannot listen on {}: {}", options.port, text_of(place), result.message());
    };
    tried((acceptor_.open(place.protocol(), failure), failure));
    tried((acceptor_.set_option(tcp::acceptor::reuse_address(true), failure), failure));
    tried((acceptor_.bind(place, failure), failure));
    tried((acceptor_.listen(tcp::acceptor::max_listen_connections, failure), failure));
    place_ = acceptor_.local_endpoint();
  }
  ~Impl() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    shared_.handler->drain();
  }

  const tcp::endpoint& place() const { return place_; }
  size_t connections() const { return shared_.count; }
  static std::string text_of(const tcp::endpoint& place) {
    const std::string address = place.address().to_string();
    return fmt::format("{}:{}", place.address().is_v6() ? "[" + address + "]" : address, place.port());
  }

  void start() {
    accept();
    thread_ = std::thread([this] {
      for (bool done = false; !done;) {
        try {
          io_.run();
          done = true;
        } catch (const std::exception& error) {  // for example no memory: drops that connection
          print_error(error.what());
        }
      }
    });
  }
  void stop() {
    asio::post(io_, [this] {
      shared_.is_stopping = true;
      Failure ignored;
      acceptor_.close(ignored);
      const std::set<HttpConnection*> connections = shared_.connections;
      for (HttpConnection* connection : connections) connection->stop();
    });
  }

 private:
  void accept() {
    acceptor_.async_accept([this](Failure failure, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!failure) {
        std::make_shared<HttpConnection>(std::move(socket), shared_)->start();
        return accept();
      }
      // For example without descriptors: some will be freed.
      retry_.expires_after(std::chrono::milliseconds(100));
      retry_.async_wait([this](Failure) { accept(); });
    });
  }

  HttpShared shared_;  // outlives the connections, which io_ owns
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  tcp::endpoint place_;
  std::thread thread_;
};

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler& handler)
    : impl_(std::make_unique<Impl>(options, handler)) {}
HttpServer::~HttpServer() = default;

std::string HttpServer::address() const { return Impl::text_of(impl_->place()); }
uint16_t HttpServer::port() const { return impl_->place().port(); }
bool HttpServer::is_loopback() const { return impl_->place().address().is_loopback(); }
void HttpServer::start() { impl_->start(); }
void HttpServer::stop() { impl_->stop(); }
size_t HttpServer::connections() const { return impl_->connections(); }

}  // namespace saccade
#endif
