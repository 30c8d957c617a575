// HTTP over libcurl, which is opened when the first request is made: one request, one answer, nothing
// followed or tried again.
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
  uint64_t offset = 0;         // of the first byte that is wanted
  std::string if_range;        // and only if this ETag or date is still the file's; else all of it is sent
  double timeout_seconds = 0;  // to connect, and with less than a thousand bytes a second
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // by their names in small letters
  std::string redirect;                        // the whole address that an answer 3xx names

  std::string header(const std::string& name) const;  // "" where there is none
  int64_t number(const std::string& name) const;      // -1 where there is none
};

// The request had no whole answer: no such host, no connection, a cut, too long without a byte,
// a certificate that does not fit.
class HttpFailure : public Error {
 public:
  HttpFailure(const std::string& what, bool may_pass) : Error(what), may_pass_(may_pass) {}
  bool may_pass() const { return may_pass_; }  // another try may have more luck

 private:
  bool may_pass_;
};

// Bytes of the body, after all headers are there. False: no more is wanted.
// What it throws comes out of http_get.
using HttpBody = std::function<bool(const HttpAnswer& head, std::string_view bytes)>;

// Throws HttpFailure, Error where libcurl is missing, Interrupted after a signal (core/runtime/interrupt.h).
// Proxies are those of the environment (https_proxy, http_proxy, all_proxy, no_proxy), certificates the
// system's or $SSL_CERT_FILE's.
HttpAnswer http_get(const HttpRequest& request, const HttpBody& body);

// The text as it may be printed: addresses in it have *** for a user's name and password,
// as http://***@host/a.pth.
std::string without_passwords(const std::string& text);

// Whether the program was built with libcurl's headers; else http_get throws Error.
bool can_fetch();

// Why a redirection is not followed: it leads out of http and https, or from https to http.
// "" when it may be.
std::string redirect_refusal(const std::string& from, const std::string& to);

}  // namespace saccade
