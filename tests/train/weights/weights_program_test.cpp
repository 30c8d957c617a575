// Tests the commands of weights as a user runs them, and what kills, signals and limits leave behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "tests/train/program.h"
#include "tests/train/weights/http_server.h"
#include "train/weights/http.h"

namespace saccade {
namespace {

class WeightsProgram : public Cli {
 protected:
  void SetUp() override {
    if (!can_fetch()) GTEST_SKIP() << "built without libcurl's headers";
    fs::remove_all(scratch() / "cache");
    file_ = read_bytes(scratch() / kCheckpoint);
  }
  void start(FaultyServer::Handler handler) {
    server_ = std::make_unique<FaultyServer>(std::move(handler));
    write_bytes(
        scratch() / "mine.textproto",
        R"(weights { name: "tiny_coco" recipe: "quickstart" data: "coco" licence: "MIT" metric: "AP" figure: 1.5 url: ")" +
            server_->url("/tiny.safetensors") + "\" }\n");
  }
  static std::string with_cache(const std::string& script) {
    return "export SACCADE_CACHE=\"$PWD/cache\" SACCADE_WEIGHTS_CATALOGUE=mine.textproto no_proxy=127.0.0.1; " +
           script;
  }
  static fs::path cached() { return scratch() / "cache/weights/tiny_coco.safetensors"; }
  void expect_line(const Result& r, int status, const std::string& part) const {
    EXPECT_EQ(r.status, status) << r.err << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_TRUE(r.err.starts_with("error: ")) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err << "\nexpected: " << part;
    EXPECT_FALSE(fs::exists(cached()));
  }
  // Starts a server that sends half of the file and then waits.
  void start_slowly() {
    start([&](const FaultyServer::Request& r, const FaultyServer::Connection& c) {
      if (r.offset() >= 0) return serve_file(r, c, file_, "one");
      c.send("HTTP/1.1 200 OK\r\nETag: \"one\"\r\nContent-Length: " + std::to_string(file_.size()) +
             "\r\n\r\n" + file_.substr(0, file_.size() / 2));
      c.wait_for_end();
    });
  }
  // Returns a script that waits until half of the file is there.
  std::string wait_for_half() const {
    return "until [ \"$(stat -c %s cache/weights/tiny_coco.safetensors.part 2>/dev/null)\" = " +
           std::to_string(file_.size() / 2) + " ]; do sleep 0.02; done; ";
  }

  std::string file_;
  std::unique_ptr<FaultyServer> server_;
};

TEST_F(WeightsProgram, ListsFetchesVerifiesAndTrains) {
  start([&](const FaultyServer::Request& r, const FaultyServer::Connection& c) {
    serve_file(r, c, file_, "one");
  });
  Result r = run_script(with_cache("\"$S\" weights list --json list.json"));
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("tiny_coco  coco  AP 1.5  size unknown  MIT"), std::string::npos) << r.out;
  EXPECT_NE(read_bytes(scratch() / "list.json").find("\"sha256\": null, \"licence\": \"MIT\""),
            std::string::npos);
  r = run_script(with_cache("\"$S\" weights verify"));
  EXPECT_NE(r.out.find("there are no weights in "), std::string::npos) << r.out;
  EXPECT_EQ(server_->requests().size(), 0u);
  // The file does not fit the recipe: the usual error comes, but only after the file has been fetched and the
  // user told from where.
  r = run_script(with_cache("\"$S\" train --model quickstart --init-from coco --data shapes --output named"));
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.out.find("tiny_coco: coco, AP 1.5, size unknown, licence MIT; from http://127.0.0.1:"),
            std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find("recorded at this first fetch"), std::string::npos) << r.out;
  EXPECT_EQ(read_bytes(cached()), file_);
  r = run_script(with_cache(
      "\"$S\" train --config tiny.textproto --init-from tiny_coco --output named && \"$S\" weights verify tiny_coco && "
      "cd cache/weights && sha256sum -c tiny_coco.safetensors.sha256"));
  EXPECT_EQ(r.status, 0) << r.err << r.out;
  EXPECT_NE(r.out.find("tiny_coco: correct, SHA-256 "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("tiny_coco.safetensors: OK"), std::string::npos) << r.out;
  EXPECT_EQ(server_->requests().size(), 1u);
  r = run_script(with_cache("\"$S\" convert tiny_coco converted.safetensors"));
  EXPECT_EQ(r.status, 0) << r.err;
  r = run_script(with_cache("printf x >> cache/weights/tiny_coco.safetensors; \"$S\" weights verify"));
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("error: weights: 1 of 1 is damaged (tiny_coco)"), std::string::npos) << r.err;
  r = run_script(with_cache("\"$S\" weights fetch tiny_coco && \"$S\" weights verify"));
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("is damaged (its SHA-256 is "), std::string::npos) << r.out;
}

TEST_F(WeightsProgram, AKilledFetchIsGoneOnWith) {
  start_slowly();
  for (const char* signal : {"KILL", "HUP", "TERM"}) {
    fs::remove_all(scratch() / "cache");
    const size_t before = server_->requests().size();
    Result r = run_script(with_cache("\"$S\" weights fetch tiny_coco & " + wait_for_half() + "kill -" +
                                     signal + " $!; wait $!; true"));
    EXPECT_FALSE(fs::exists(cached())) << r.err;
    r = run_script(with_cache("\"$S\" weights fetch tiny_coco"));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(read_bytes(cached()), file_);
    ASSERT_EQ(server_->requests().size(), before + 2);
    EXPECT_EQ(server_->requests()[before + 1].offset(), static_cast<int64_t>(file_.size() / 2)) << signal;
  }
}

TEST_F(WeightsProgram, TrainingStopsBySignalWhileItFetches) {
  start_slowly();
  const Result r = run_script(
      with_cache("\"$S\" train --config tiny.textproto --init-from tiny_coco --output unfetched & " +
                 wait_for_half() + "kill -TERM $!; wait $!"));
  EXPECT_EQ(r.status, 128 + SIGTERM) << r.err;
  EXPECT_FALSE(fs::exists(cached()));
  EXPECT_FALSE(fs::exists(scratch() / "unfetched"));
}

TEST_F(WeightsProgram, AFullDiskKeepsWhatHasCome) {
  start([&](const FaultyServer::Request& r, const FaultyServer::Connection& c) {
    serve_file(r, c, file_, "one");
  });
  expect_line(
      run_script(with_cache("(ulimit -f 8; \"$S\" weights fetch tiny_coco)")), 1,
      "tiny_coco.safetensors.part: cannot write the file: File too large; what has arrived is kept (");
  const Result r = run_script(with_cache("\"$S\" weights fetch tiny_coco"));
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(read_bytes(cached()), file_);
  EXPECT_GT(server_->requests()[1].offset(), 0);
}

TEST_F(WeightsProgram, TwoProcessesFetchOnce) {
  start([&](const FaultyServer::Request& r, const FaultyServer::Connection& c) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    serve_file(r, c, file_, "one");
  });
  const Result r =
      run_script(with_cache("\"$S\" weights fetch tiny_coco & \"$S\" weights fetch tiny_coco && wait $!"));
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find(" is fetching it; waiting"), std::string::npos) << r.out;
  EXPECT_EQ(read_bytes(cached()), file_);
  EXPECT_EQ(server_->requests().size(), 1u);
}

TEST_F(WeightsProgram, FaultsAreLines) {
  start([&](const FaultyServer::Request&, const FaultyServer::Connection& c) {
    c.answer("404 Not Found", "", "no");
  });
  expect_line(run_script(with_cache("\"$S\" weights fetch tiny_coco")), 1,
              "/tiny.safetensors: the server has no such file (404)");
  expect_line(run_script(with_cache("\"$S\" weights fetch tiny")), 2,
              "no published weights \"tiny\", did you mean \"tiny_coco\"?");
  expect_line(run_script(with_cache("\"$S\" weights verify tiny_coco")), 2,
              "is not there, so there is nothing to verify");
  expect_line(run_script(with_cache("SACCADE_CACHE=here \"$S\" weights fetch tiny_coco")), 2,
              "expected the absolute path of a folder");
  expect_line(run_script(with_cache("SACCADE_WEIGHTS_CATALOGUE=none \"$S\" weights list")), 2,
              "none: cannot read the file");
  expect_line(run_script(with_cache("SACCADE_WEIGHTS_TIMEOUT=0 \"$S\" weights fetch tiny_coco")), 2,
              "SACCADE_WEIGHTS_TIMEOUT: \"0\", expected a number of seconds");
  expect_line(run_script(with_cache("HOME= SACCADE_CACHE= XDG_CACHE_HOME= \"$S\" weights fetch tiny_coco")),
              2, "HOME is not set");
  expect_line(
      run_script(with_cache("no_proxy= http_proxy=http://127.0.0.1:1 \"$S\" weights fetch tiny_coco")), 1,
      "Failed to connect to 127.0.0.1 port 1");
  expect_line(run_script(with_cache("\"$S\" weights")), 2, "expected a command, one of list, fetch, verify");
}

}  // namespace
}  // namespace saccade
