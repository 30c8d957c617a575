// Tests weights by name against a server that cuts, lies, redirects, stalls and refuses: each fault is one
// line, and no incomplete file has the name of a whole one.
#include "train/weights/fetch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <thread>

#include "core/formats/safetensors.h"
#include "core/tensor/error.h"
#include "tests/test_folder.h"
#include "tests/train/weights/http_server.h"
#include "train/weights/cache.h"
#include "train/weights/http.h"
#include "train/weights/sha256.h"

namespace saccade {
namespace {

using Request = FaultyServer::Request;
using Connection = FaultyServer::Connection;

class Fetch : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_fetch()) GTEST_SKIP() << "built without libcurl's headers";
    ::setenv("SACCADE_CACHE", cache_.path().c_str(), 1);
    ::setenv("no_proxy", "127.0.0.1,no-such-host.invalid", 1);
    const std::string path = cache_ / "made.safetensors";
    write_safetensors(path, {{"a", Tensor::zeros({3000})}}, {});
    file_ = read_bytes(path);
    write_safetensors(path, {{"b", Tensor::zeros({2500})}}, {});
    other_ = read_bytes(path);
    std::filesystem::remove(path);
  }
  void TearDown() override { ::unsetenv("SACCADE_CACHE"); }

  void start(FaultyServer::Handler handler) {
    server_ = std::make_unique<FaultyServer>(std::move(handler));
    weights_.set_name("tiny");
    weights_.set_data("coco");
    weights_.set_url(server_->url("/files/tiny.pth"));
  }
  void know_sum() {
    Sha256 sum;
    sum.add(file_.data(), file_.size());
    weights_.set_sha256(sum.digits());
  }
  std::string fetch() const { return fetch_weights(weights_, settings_, true); }
  // Returns the one line that fetching ends with, which names the address or the cache.
  std::string refusal() const {
    try {
      fetch();
    } catch (const Error& error) {
      const std::string line = error.what();
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
      EXPECT_TRUE(line.find("127.0.0.1") != std::string::npos ||
                  line.find(cache_.path()) != std::string::npos)
          << line;
      EXPECT_FALSE(std::filesystem::exists(path())) << line;
      std::error_code none;  // an empty part is not left
      EXPECT_NE(std::filesystem::file_size(path() + ".part", none), 0u) << line;
      EXPECT_EQ(std::filesystem::exists(path() + ".part"), std::filesystem::exists(path() + ".part.origin"))
          << line;
      return line;
    }
    return "no error";
  }
  void expect_refusal(const std::string& part) const {
    const std::string line = refusal();
    EXPECT_NE(line.find(part), std::string::npos) << line << "\nexpected: " << part;
  }
  void expect_fetched() const {
    EXPECT_EQ(fetch(), path());
    EXPECT_EQ(read_bytes(path()), file_);
    for (const char* rest : {".part", ".part.origin", ".lock"})
      EXPECT_FALSE(std::filesystem::exists(path() + rest)) << rest;
  }
  std::string path() const { return cache_ / "weights/tiny.pth"; }
  size_t requests() const { return server_->requests().size(); }

  TestFolder cache_;
  std::string file_, other_;
  PublishedWeights weights_;
  FetchSettings settings_{.timeout_seconds = 1, .pause_seconds = 0.005, .tries = 3};
  std::unique_ptr<FaultyServer> server_;
};

TEST_F(Fetch, ComputesSha256) {
  Sha256 sum;
  sum.add("ab", 2);
  sum.add("c", 1);
  EXPECT_EQ(sum.digits(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256().digits(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(Fetch, FetchesOnceAndVerifies) {
  start([&](const Request& r, const Connection& c) { serve_file(r, c, file_, "one"); });
  know_sum();
  expect_fetched();
  expect_fetched();
  EXPECT_EQ(requests(), 1u);
  EXPECT_EQ(read_bytes(path() + ".sha256"), weights_.sha256() + "  tiny.pth\n");
  // A damaged file is downloaded again.
  write_bytes(path(), other_);
  expect_fetched();
  EXPECT_EQ(requests(), 2u);
}

TEST_F(Fetch, TakesAFileThatWasPutThere) {
  start([&](const Request&, const Connection& c) { c.answer("500 No", "", ""); });
  std::filesystem::create_directories(cache_ / "weights");
  write_bytes(path(), file_);
  expect_fetched();
  know_sum();
  expect_fetched();
  EXPECT_EQ(requests(), 0u);
}

TEST_F(Fetch, LearnsASumAndHoldsToIt) {
  const std::string* served = &file_;
  start([&](const Request& r, const Connection& c) { serve_file(r, c, *served, "one"); });
  expect_fetched();
  std::filesystem::remove(path());
  served = &other_;
  expect_refusal(" at the first fetch (");
  served = &file_;
  expect_fetched();
}

TEST_F(Fetch, HoldsToTheBeginningOfASum) {
  start([&](const Request& r, const Connection& c) { serve_file(r, c, file_, "one"); });
  know_sum();
  weights_.set_sha256(weights_.sha256().substr(0, 8));
  expect_fetched();
  std::filesystem::remove_all(cache_ / "weights");
  weights_.set_sha256(weights_.sha256() == "00000000" ? "11111111" : "00000000");
  expect_refusal("expected " + weights_.sha256() + "...; it was removed");
  EXPECT_FALSE(std::filesystem::exists(path() + ".part"));
}

TEST_F(Fetch, RefusesAWrongSum) {
  start([&](const Request& r, const Connection& c) { serve_file(r, c, other_, "one"); });
  know_sum();
  expect_refusal("arrived complete, but its SHA-256 is ");
  EXPECT_FALSE(std::filesystem::exists(path() + ".part"));
  // Hugging Face's server states the sum of a file in its redirection.
  weights_.clear_sha256();
  start([&](const Request& r, const Connection& c) {
    if (r.path == "/files/tiny.pth")
      return c.answer("302 Found", "Location: /cdn\r\nX-Linked-Etag: \"" + std::string(64, 'a') + "\"\r\n",
                      "");
    serve_file(r, c, file_, "one");
  });
  expect_refusal("the server states aaaa");
}

TEST_F(Fetch, GoesOnAfterACut) {
  start([&](const Request& r, const Connection& c) {
    serve_file(r, c, file_, "one", r.offset() < 0 ? 5000 : std::string::npos);
  });
  expect_fetched();
  ASSERT_EQ(requests(), 2u);
  EXPECT_EQ(server_->requests()[1].offset(), 5000);
  EXPECT_TRUE(server_->requests()[1].has("if-range: \"one\""));
}

TEST_F(Fetch, SaysWhenItIsAlwaysCut) {
  bool cuts = true;
  start([&](const Request& r, const Connection& c) {
    serve_file(r, c, file_, "one", !cuts ? std::string::npos : r.offset() < 0 ? 7000 : 0);
  });
  expect_refusal(", after 3 tries; 0.0 MB of 0.0 MB are kept, and the next fetch continues from there");
  EXPECT_EQ(requests(), 3u);
  EXPECT_EQ(std::filesystem::file_size(path() + ".part"), 7000u);
  cuts = false;
  expect_fetched();
  EXPECT_EQ(server_->requests()[3].offset(), 7000);
}

TEST_F(Fetch, BeginsAnewWhenTheFileHasChanged) {
  // As it should, the server sends the whole new file; or it continues with that one as if nothing had
  // changed.
  for (const bool honest : {true, false}) {
    std::filesystem::remove_all(cache_ / "weights");
    start([&](const Request& r, const Connection& c) {
      if (requests() == 1) return serve_file(r, c, other_, "one", 5000);
      if (honest || r.offset() < 0) return serve_file(r, c, file_, "two");
      c.answer("206 Partial Content",
               "ETag: \"two\"\r\nContent-Range: bytes 5000-" + std::to_string(file_.size() - 1) + "/" +
                   std::to_string(file_.size()) + "\r\n",
               std::string_view(file_).substr(5000));
    });
    expect_fetched();
    EXPECT_EQ(requests(), honest ? 2u : 3u);
  }
}

TEST_F(Fetch, BeginsAnewWhenPartsDoNotFit) {
  start([&](const Request& r, const Connection& c) { serve_file(r, c, file_, "one"); });
  know_sum();
  std::filesystem::create_directories(cache_ / "weights");
  write_bytes(path() + ".part", std::string(5000, 'x'));
  write_bytes(path() + ".part.origin", weights_.url() + "\n\"one\"\n" + std::to_string(file_.size()) + "\n");
  expect_fetched();
  EXPECT_EQ(server_->requests()[0].offset(), 5000);
  EXPECT_EQ(server_->requests()[1].offset(), -1);
  // A part about which nothing is known is not continued.
  std::filesystem::remove(path());
  write_bytes(path() + ".part", std::string(5000, 'x'));
  expect_fetched();
  EXPECT_EQ(server_->requests()[2].offset(), -1);
}

TEST_F(Fetch, TakesAPartThatIsWhole) {
  start([&](const Request& r, const Connection& c) { serve_file(r, c, file_, "one"); });
  std::filesystem::create_directories(cache_ / "weights");
  const std::string origin = weights_.url() + "\n\"one\"\n" + std::to_string(file_.size()) + "\n";
  write_bytes(path() + ".part", file_);
  write_bytes(path() + ".part.origin", origin);
  expect_fetched();
  EXPECT_EQ(requests(), 1u);
  // A part that is too large is not continued.
  std::filesystem::remove(path());
  write_bytes(path() + ".part", file_ + "x");
  write_bytes(path() + ".part.origin", origin);
  expect_fetched();
  EXPECT_EQ(server_->requests()[1].offset(), -1);
}

TEST_F(Fetch, FollowsRedirections) {
  start([&](const Request& r, const Connection& c) {
    if (r.path == "/files/tiny.pth") return c.answer("302 Found", "Location: next\r\n", "moved");
    if (r.path == "/files/next")
      return c.answer("307 X", "Location: " + server_->url("/cdn?a=b") + "\r\n", "");
    serve_file(r, c, file_, "one", r.offset() < 0 ? 3000 : std::string::npos);
  });
  expect_fetched();
  EXPECT_EQ(requests(), 6u);
}

TEST_F(Fetch, RefusesRedirectionsThatGoNowhere) {
  std::string to = "/files/tiny.pth";
  start([&](const Request&, const Connection& c) { c.answer("301 X", "Location: " + to + "\r\n", ""); });
  expect_refusal("is redirected more than 10 times");
  EXPECT_EQ(requests(), 11u);
  for (const char* elsewhere : {"file:///etc/passwd", "ftp://127.0.0.1/tiny.pth"}) {
    to = elsewhere;
    expect_refusal("is redirected to " + to + ", which is neither https nor http");
  }
  EXPECT_NE(redirect_refusal("https://a/b", "http://a/b"), "");
  EXPECT_NE(redirect_refusal("HTTPS://a/b", "Http://a/b"), "");
  for (const auto& [from, next] :
       {std::pair("http://a", "https://b"), {"https://a", "https://b"}, {"http://a", "http://b"}})
    EXPECT_EQ(redirect_refusal(from, next), "");
}

TEST_F(Fetch, SaysWhatTheServerAnswers) {
  std::string status;
  start([&](const Request&, const Connection& c) {
    c.answer(status, "Content-Type: text/html\r\n", "<html>no");
  });
  weights_.set_page("https://somewhere/page");
  size_t before = 0;
  for (const auto& [answered, part, tries] :
       {std::tuple("404 Not Found",
                   "the server has no such file (404); see https://somewhere/page, or download the file", 1),
        {"410 Gone", "no such file (410)", 1},
        {"401 Unauthorized", "refuses to send it (401)", 1},
        {"403 Forbidden", "refuses to send it (403)", 1},
        {"418 Teapot", "answers with status 418", 1},
        {"204 No Content", "answers with status 204", 1},
        {"304 Not Modified", "answers with status 304", 1},
        {"429 Too Many Requests", "the server asks to slow down (429), after 3 tries", 3},
        {"500 Error", "the server fails (500), after 3 tries", 3},
        {"503 Error", "the server fails (503), after 3 tries", 3}}) {
    status = answered;
    expect_refusal(part);
    expect_refusal("at " + path());
    EXPECT_EQ(requests() - before, 2u * static_cast<size_t>(tries)) << answered;
    before = requests();
  }
}

TEST_F(Fetch, IsPatientWithABusyServer) {
  start([&](const Request& r, const Connection& c) {
    if (requests() < 3) return c.answer("503 Busy", "Retry-After: 0\r\n", "busy");
    serve_file(r, c, file_, "one");
  });
  expect_fetched();
  EXPECT_EQ(requests(), 3u);
}

TEST_F(Fetch, RefusesWhatIsNoFileOfWeights) {
  std::string type = "text/html; charset=utf-8", body = file_;
  start([&](const Request&, const Connection& c) {
    c.answer("200 OK", "Content-Type: " + type + "\r\n", body);
  });
  expect_refusal("sends a web page instead of the file");
  type = "application/octet-stream";
  for (const char* page : {"<!DOCTYPE html><p>Sign in", "\n <HTML><body>"}) {
    body = page;
    expect_refusal("sends a web page instead of the file");
  }
  for (const char* text :
       {"{\"error\": \"no\"}", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "x"}) {
    body = text;
    expect_refusal("is not a weights file (");
  }
  body = file_.substr(0, 9000);
  expect_refusal("is not a weights file (");
  body = "";
  expect_refusal("is empty");
  EXPECT_FALSE(std::filesystem::exists(path() + ".part"));
  EXPECT_FALSE(std::filesystem::exists(path() + ".sha256"));
}

TEST_F(Fetch, BoundsTheSize) {
  start([&](const Request& r, const Connection& c) { serve_file(r, c, file_, "one"); });
  weights_.set_bytes(file_.size() + 1);
  expect_refusal("bytes, expected " + std::to_string(file_.size() + 1));
  // A server does not say how much it sends, and never ends.
  start([&](const Request&, const Connection& c) {
    c.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    while (c.send(file_)) {
    }
  });
  weights_.set_bytes(file_.size());
  expect_refusal("sends more than the " + std::to_string(file_.size()) + " bytes of the file");
  // The server sends a part that nobody has asked for.
  start([&](const Request&, const Connection& c) {
    c.answer("206 Partial Content", "Content-Range: bytes 0-99/" + std::to_string(file_.size()) + "\r\n",
             file_.substr(0, 100));
  });
  expect_refusal("sends a part of the file, although all of it was requested");
  // The server sends more than the disk holds.
  start([&](const Request&, const Connection& c) {
    c.send("HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000\r\n\r\nx");
    c.wait_for_end();
  });
  weights_.clear_bytes();
  expect_refusal("free, but tiny needs 9000000000.0 MB; set SACCADE_CACHE to another folder");
}

TEST_F(Fetch, DoesNotWaitForEver) {
  start([&](const Request&, const Connection& c) {
    c.send("HTTP/1.1 200 OK\r\nETag: \"one\"\r\nContent-Length: " + std::to_string(file_.size()) +
           "\r\n\r\n" + file_.substr(0, 4000));
    c.wait_for_end();
  });
  settings_.tries = 1;
  expect_refusal("nothing, or almost nothing, arrived for 1 s");
  EXPECT_EQ(std::filesystem::file_size(path() + ".part"), 4000u);
}

TEST_F(Fetch, SaysWhenNobodyIsThere) {
  start([](const Request&, const Connection&) {});
  expect_refusal("Empty reply from server, after 3 tries");
  server_.reset();
  expect_refusal("Failed to connect to 127.0.0.1");
  weights_.set_url("http://no-such-host.invalid/tiny.pth");
  const std::string line = refusal();
  EXPECT_NE(line.find("http://no-such-host.invalid/tiny.pth: Could not resolve host: no-such-host.invalid"),
            std::string::npos)
      << line;
}

TEST_F(Fetch, PrintsNoPasswords) {
  for (const auto& [text, shown] :
       {std::pair("http://user:pw@host/a.pth", "http://***@host/a.pth"),
        {"https://token@host:8080?a=b@c", "https://***@host:8080?a=b@c"},
        {"http://u:p@ss@host/a@b", "http://***@host/a@b"},
        {"http://host/a@b.pth", "http://host/a@b.pth"},
        {"from http://u:p@a/x to HTTP://u:p@b", "from http://***@a/x to HTTP://***@b"},
        {"no://", "no://"},
        {"pw@host", "pw@host"}})
    EXPECT_EQ(without_passwords(text), shown);
  std::string to;
  start([&](const Request&, const Connection& c) {
    if (to.empty()) return c.answer("404 No", "", "");
    c.answer("302 Found", "Location: " + to + "\r\n", "");
  });
  const std::string host = server_->url("").substr(7);
  weights_.set_url("http://user:secret@" + host + "/tiny.pth");
  weights_.set_page("https://user:secret@page/");
  for (const char* next : {"", "ftp://user:secret@elsewhere/"}) {
    to = next;
    testing::internal::CaptureStdout();
    std::string line;
    try {
      fetch_weights(weights_, settings_, false);
    } catch (const Error& error) {
      line = error.what();
    }
    const std::string out = testing::internal::GetCapturedStdout();
    EXPECT_TRUE(line.starts_with("http://***@" + host + "/tiny.pth: ")) << line;
    EXPECT_NE(line.find("see https://***@page/"), std::string::npos) << line;
    EXPECT_NE(out.find("from http://***@" + host + "/tiny.pth"), std::string::npos) << out;
    EXPECT_EQ((line + out).find("secret"), std::string::npos) << line << out;
  }
}

TEST_F(Fetch, RefusesAFolderThatCannotBe) {
  start([&](const Request& r, const Connection& c) { serve_file(r, c, file_, "one"); });
  write_bytes(cache_ / "file", "x");
  for (const auto& [folder, part] :
       {std::pair<std::string, const char*>{cache_ / "file", "cannot create the weights folder"},
        {"/proc/saccade", "cannot create the weights folder"},
        {"relative", "expected the absolute path of a folder"}}) {
    ::setenv("SACCADE_CACHE", folder.c_str(), 1);
    try {
      fetch();
      ADD_FAILURE() << folder;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(requests(), 0u);
}

TEST_F(Fetch, TwoAtOnceFetchOnce) {
  start([&](const Request& r, const Connection& c) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    serve_file(r, c, file_, "one");
  });
  std::thread other([&] { fetch(); });
  fetch();
  other.join();
  expect_fetched();
  EXPECT_EQ(requests(), 1u);
}

}  // namespace
}  // namespace saccade
