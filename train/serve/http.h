// A request and its answer, independent of the transport.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace saccade {

struct ServiceRequest {
  std::string method, target;  // for example "POST", "/predict?threshold=0.3"
  std::string content_type, content_encoding, accept;
  std::string body;
  // Set when nobody waits for the answer any more.
  std::shared_ptr<std::atomic<bool>> is_gone = std::make_shared<std::atomic<bool>>(false);
};

struct ServiceAnswer {
  int status = 200;
  std::string type = "application/json", body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // besides Content-Type and Content-Length
};

// Says in one line what is wrong with a request, or with the service.
class HttpError : public std::runtime_error {
 public:
  HttpError(int status, const std::string& text) : std::runtime_error(text), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};
// Returns {"error": "the line"}.
ServiceAnswer error_answer(int status, const std::string& text);
// The same for a busy service: it says when to try again.
ServiceAnswer busy_answer(const std::string& text);

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Decides by the head alone, before the body is read: an answer that needs no body, like most errors.
  virtual std::optional<ServiceAnswer> refuse(const ServiceRequest& head) = 0;
  // Calls `done` once, from any thread, possibly within the call.
  virtual void handle(ServiceRequest request, std::function<void(ServiceAnswer)> done) = 0;
  // Called with the status of every answer that is sent.
  virtual void count(int /*status*/) {}
  // Returns when no `done` will be called any more.
  virtual void drain() = 0;
};

}  // namespace saccade
