// Tests the front of a service, with a handler that knows nothing about images.
#include "train/serve/http_server.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/input_error.h"
#include "tests/train/serve/raw_client.h"

namespace saccade {
namespace {

using std::chrono::milliseconds;

// Answers with the length of the body; requests for /later are answered when it is told to.
class LengthHandler : public HttpHandler {
 public:
  std::optional<ServiceAnswer> refuse(const ServiceRequest& head) override {
    if (head.target == "/refused") return error_answer(404, "not here");
    return std::nullopt;
  }
  void handle(ServiceRequest request, std::function<void(ServiceAnswer)> done) override {
    ServiceAnswer answer{.type = "text/plain", .body = std::to_string(request.body.size())};
    if (request.target == "/large") answer.body.assign(size_t{64} << 20, 'x');
    if (request.target != "/later") return done(std::move(answer));
    const std::lock_guard lock(mutex_);
    later_.push_back({request.is_gone, [done, answer] { done(answer); }});
    came_.notify_all();
  }
  void count(int status) override {
    const std::lock_guard lock(mutex_);
    ++counts_[status];
  }
  void drain() override {}

  void wait_for_later(size_t requests) {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return later_.size() >= requests; });
  }
  void answer_later() {
    const std::lock_guard lock(mutex_);
    for (const Later& later : later_) later.answer();
    later_.clear();
  }
  bool first_is_gone() {
    const std::lock_guard lock(mutex_);
    return *later_.front().is_gone;
  }
  int count_of(int status) {
    const std::lock_guard lock(mutex_);
    return counts_[status];
  }

 private:
  struct Later {
    std::shared_ptr<std::atomic<bool>> is_gone;
    std::function<void()> answer;
  };
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Later> later_;
  std::map<int, int> counts_;
};

class HttpFront : public testing::Test {
 protected:
  void SetUp() override { restart({}); }
  void restart(HttpServerOptions options) {
    options.port = 0;
    server_.reset();
    try {
      server_ = std::make_unique<HttpServer>(options, handler_);
    } catch (const InputError& error) {
      GTEST_SKIP() << error.what();
    }
    server_->start();
  }
  uint16_t port() const { return server_->port(); }
  template <class F>
  static bool comes_true(F f) {
    for (int i = 0; i < 1000 && !f(); ++i) std::this_thread::sleep_for(milliseconds(10));
    return f();
  }

  LengthHandler handler_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpFront, ServesOneRequestAfterAnother) {
  RawClient client(port());
  EXPECT_EQ(client.ask(http_get("/")).body, "0");
  EXPECT_EQ(client.ask(http_post("/a", "image/png", "12345")).body, "5");
  // Two requests are sent at once.
  client.send(http_post("/a", "image/png", "123") + http_post("/a", "image/png", "1234"));
  EXPECT_EQ(client.receive().body, "3");
  EXPECT_EQ(client.receive().body, "4");
  EXPECT_EQ(
      client
          .ask(
              "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
          .body,
      "5");
  // An error of the handler does not end the connection, as there was no body.
  EXPECT_EQ(client.ask(http_get("/refused")).status, 404);
  client.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  const HttpReply head = client.receive(false);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), "1");
  // The client is asked for the body.
  client.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client.receive().status, 100);
  EXPECT_EQ(client.ask("1234").body, "4");
  client.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_TRUE(client.is_ended());
  EXPECT_EQ(handler_.count_of(200), 8);
}

TEST_F(HttpFront, RefusesWhatIsNoRequest) {
  restart({.max_bytes = 1000});
  const std::string long_head = "GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(20000, 'x') + "\r\n\r\n";
  const std::string megabyte(1 << 20, 'x'), chunk = "400\r\n" + std::string(1024, 'x') + "\r\n";
  struct Row {
    std::string bytes;
    int status;
    std::string part;
  };
  for (
      const Row& row : {
          Row{"\x16\x03\x01\x02" + megabyte, 400, "not HTTP/1.1"},
          Row{"GET /\r\n\r\n", 400, "not HTTP/1.1"},
          Row{"GET / HTTP/9.9\r\n\r\n", 400, "not HTTP/1.1"},
          Row{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, "not HTTP/1.1"},
          Row{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400,
              "not HTTP/1.1"},
          Row{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400,
              "not HTTP/1.1"},
          Row{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "not HTTP/1.1"},
          Row{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501,
              "Transfer-Encoding: gzip, chunked, expected chunked"},
          Row{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
              501, "gzip, chunked, expected"},
          Row{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 400, "gzip, expected chunked"},
          Row{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 400,
              "chunked, gzip, expected"},
          Row{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
              400, ""},
          Row{"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "chunked and HTTP/1.1"},
          Row{"GET / HTTP/1.1\r\n\r\n", 400, "the header has 0 \\\"Host\\\" fields, expected one"},
          Row{"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "has 2 \\\"Host\\\" fields"},
          Row{"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, "not HTTP/1.1"},
          Row{long_head, 431, "the header has more than 16384 bytes"},
          Row{http_post("/", "image/png", megabyte), 413, "the body has more than 1000 bytes"},
          Row{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + chunk, 413,
              "more than 1000"},
          Row{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n", 413, "more than 1000"},
          Row{"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", 404, "not here"},
      }) {
    SCOPED_TRACE(row.bytes.substr(0, 60));
    RawClient client(port());
    client.send(row.bytes);
    const HttpReply reply = client.receive();
    EXPECT_EQ(reply.status, row.status) << reply.body;
    EXPECT_TRUE(reply.body.starts_with("{\"error\": \"")) << reply.body;
    EXPECT_NE(reply.body.find(row.part), std::string::npos) << reply.body;
    EXPECT_EQ(reply.header("connection"), "close");
    EXPECT_EQ(reply.header("content-type"), "application/json");
    EXPECT_TRUE(client.is_ended());
  }
  EXPECT_EQ(RawClient(port()).ask(http_get("/")).status, 200);
}

TEST_F(HttpFront, WaitsForNobodyForLong) {
  restart({.timeout = milliseconds(200)});
  const std::string request = http_post("/", "image/png", std::string(100, 'x'));
  RawClient idle(port());  // says nothing
  for (const size_t begin : {size_t{0}, request.size() - 50}) {
    SCOPED_TRACE(begin);
    RawClient slow(port());
    slow.send(request.substr(0, begin + 1));
    const auto start = std::chrono::steady_clock::now();
    std::thread dripping([&] {
      for (size_t i = begin + 1; i < begin + 12; ++i) {
        if (!slow.send(request.substr(i, 1))) break;
        std::this_thread::sleep_for(milliseconds(40));
      }
    });
    EXPECT_EQ(RawClient(port()).ask(http_get("/")).status, 200);  // meanwhile
    const HttpReply reply = slow.receive();
    EXPECT_EQ(reply.status, 408) << reply.body;
    EXPECT_EQ(reply.body, "{\"error\": \"the request was incomplete after 0.2 s\"}\n");
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(1500));
    dripping.join();
  }
  EXPECT_TRUE(idle.is_ended());
  // A client that does not take its answer is dropped, too.
  RawClient deaf(port());
  deaf.send(http_get("/large"));
  EXPECT_TRUE(comes_true([&] { return server_->connections() <= 1; }));
  EXPECT_EQ(RawClient(port()).ask(http_get("/")).status, 200);
}

TEST_F(HttpFront, NoticesWhoGoesAway) {
  {
    RawClient client(port());
    client.send(http_get("/later"));
    handler_.wait_for_later(1);
    EXPECT_FALSE(handler_.first_is_gone());
  }
  EXPECT_TRUE(comes_true([&] { return handler_.first_is_gone(); }));
  handler_.answer_later();
  {
    RawClient half(port()), nothing(port());
    half.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n123");
  }
  EXPECT_TRUE(comes_true([&] { return server_->connections() == 0; }));
}

// `nc -N` does this.
TEST_F(HttpFront, AnswersWhoSendsNothingMore) {
  for (const char* version : {"1.1", "1.0"}) {
    SCOPED_TRACE(version);
    RawClient client(port());
    client.send(fmt::format("GET /later HTTP/{}\r\nHost: x\r\n\r\n", version));
    client.end_sending();
    handler_.wait_for_later(1);
    if (version == std::string("1.1")) {
      EXPECT_EQ(client.receive().status, 100);
    }
    EXPECT_FALSE(handler_.first_is_gone());
    handler_.answer_later();
    EXPECT_EQ(client.receive().body, "0");
    EXPECT_TRUE(client.is_ended());
  }
  RawClient quick(port());
  quick.send(http_post("/a", "image/png", "12345"));
  quick.end_sending();
  HttpReply reply = quick.receive();
  if (reply.status == 100) reply = quick.receive();
  EXPECT_EQ(reply.body, "5");
  RawClient half(port());  // the request, too
  half.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n123");
  half.end_sending();
  EXPECT_EQ(half.receive().status, 400);
}

TEST_F(HttpFront, BoundsItsConnections) {
  restart({.max_connections = 3});
  RawClient first(port()), second(port()), third(port());
  EXPECT_TRUE(comes_true([&] { return server_->connections() == 3; }));
  const HttpReply reply = RawClient(port()).receive();
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.header("retry-after"), "1");
  EXPECT_EQ(third.ask(http_get("/")).status, 200);
}

TEST_F(HttpFront, StopsWithAnswers) {
  RawClient idle(port()), half(port()), served(port());
  idle.ask(http_get("/"));
  half.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n123");
  served.send(http_get("/later"));
  handler_.wait_for_later(1);
  EXPECT_TRUE(comes_true([&] { return server_->connections() == 3; }));
  std::this_thread::sleep_for(milliseconds(50));  // the half request is there
  server_->stop();
  EXPECT_TRUE(idle.is_ended());
  const HttpReply refused = half.receive();
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_NE(refused.body.find("is stopping"), std::string::npos) << refused.body;
  EXPECT_FALSE(RawClient(port()).is_connected());
  handler_.answer_later();
  const HttpReply reply = served.receive();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_TRUE(served.is_ended());
}

TEST_F(HttpFront, ListensWhereItCan) {
  EXPECT_TRUE(server_->is_loopback());
  auto refused = [&](HttpServerOptions options) {
    return input_error([&] { HttpServer(options, handler_); });
  };
  EXPECT_EQ(refused({.port = port()}),
            fmt::format("--port {0}: cannot listen on 127.0.0.1:{0}: Address already in use", port()));
  EXPECT_NE(refused({.host = "example.org"}).find("--host: \"example.org\" is not an IP address"),
            std::string::npos);
  EXPECT_NE(refused({.host = "192.0.2.1", .port = 0}).find("cannot listen on 192.0.2.1:0"),
            std::string::npos);
  const HttpServer everywhere({.host = "0.0.0.0", .port = 0}, handler_);
  EXPECT_FALSE(everywhere.is_loopback());
}

}  // namespace
}  // namespace saccade
