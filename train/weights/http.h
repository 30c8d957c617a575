// HTTP over libcurl, which is opened for the first request: one request, one answer; no redirection is
// followed and nothing is retried.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "core/tensor/error.h"

namespace saccade {

struct HttpRequest {
  std::string url;
  uint64_t offset = 0;         // of the first byte wanted
  std::string if_range;        // only if this ETag or date is still the file's; otherwise all of it is sent
  double timeout_seconds = 0;  // to connect, and at less than a thousand bytes a second
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // by their names in lower case
  std::string redirect;                        // the whole address that a 3xx answer names

  std::string header(const std::string& name) const;  // "" if it is missing
  int64_t number(const std::string& name) const;      // -1 if it is missing
};

// The request had no complete answer: no such host, no connection, an interruption, too long without a byte,
// or a certificate that does not fit.
class HttpFailure : public Error {
 public:
  HttpFailure(const std::string& what, bool may_pass) : Error(what), may_pass_(may_pass) {}
  bool may_pass() const { return may_pass_; }  // another try may succeed

 private:
  bool may_pass_;
};

// Receives bytes of the body, after all headers. Returns false if no more is wanted. http_get passes its
// exceptions on.
using HttpBody = std::function<bool(const HttpAnswer& head, std::string_view bytes)>;

// Throws HttpFailure, Error if libcurl is missing, Interrupted after a signal (core/runtime/interrupt.h).
// Proxies come from the environment (https_proxy, http_proxy, all_proxy, no_proxy), certificates from the
// system or from $SSL_CERT_FILE.
HttpAnswer http_get(const HttpRequest& request, const HttpBody& body);

// Returns the text with *** for the user name and password in addresses, such as http://***@host/a.pth.
std::string without_passwords(const std::string& text);

// Whether the program was built with libcurl's headers; otherwise http_get throws Error.
bool can_fetch();

// Says why a redirection is not followed: it leaves http and https, or leads from https to http; empty if it
// may be followed.
std::string redirect_refusal(const std::string& from, const std::string& to);

}  // namespace saccade
