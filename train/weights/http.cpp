#include "train/weights/http.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <exception>

#include "core/files/text.h"
#include "core/runtime/interrupt.h"
#include "core/runtime/opened_library.h"

#ifdef SACCADE_CURL
#include <curl/curl.h>
// Its type checks replace these functions by macros.
#undef curl_easy_setopt
#undef curl_easy_getinfo
#endif

namespace saccade {

std::string HttpAnswer::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? "" : it->second;
}

int64_t HttpAnswer::number(const std::string& name) const {
  const std::string text = header(name);
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : -1;
}

std::string without_passwords(const std::string& text) {
  std::string shown;
  size_t done = 0;
  for (size_t at = 0; (at = text.find("://", at)) != std::string::npos;) {
    at += 3;
    const size_t end = std::min(text.find_first_of("/?# \t\n\"'`", at), text.size());
    const size_t host = text.substr(at, end - at).rfind('@');
    if (host == std::string::npos) continue;
    shown += text.substr(done, at - done) + "***";
    done = at + host;
  }
  return shown + text.substr(done);
}

std::string redirect_refusal(const std::string& from, const std::string& to) {
  const std::string source = lower_case(from), target = lower_case(to);
  if (!target.starts_with("https://") && !target.starts_with("http://"))
    return "which is neither https nor http";
  if (source.starts_with("https://") && !target.starts_with("https://"))
    return "from https to http, where anybody on the way could change the file";
  return "";
}

#ifdef SACCADE_CURL
namespace {

#define SACCADE_CURL_FUNCTIONS(F) \
  F(curl_global_init)             \
  F(curl_easy_init)               \
  F(curl_easy_cleanup)            \
  F(curl_easy_setopt)             \
  F(curl_easy_perform)            \
  F(curl_easy_getinfo)            \
  F(curl_easy_strerror)           \
  F(curl_slist_append)            \
  F(curl_slist_free_all)

struct CurlApi {
  OpenedLibrary library{"libcurl", "libcurl.so.4", "libcurl4"};
#define F(name) decltype(&::name) name = library.symbol<decltype(::name)>(#name);
  SACCADE_CURL_FUNCTIONS(F)
#undef F
};
const CurlApi& curl() {
  static const CurlApi api = [] {
    CurlApi made;
    if (made.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) fail("libcurl cannot be started");
    return made;
  }();
  return api;
}

// An answer while it arrives.
struct Transfer {
  using Clock = std::chrono::steady_clock;

  const HttpBody& body;
  double timeout_seconds;
  HttpAnswer head = {};
  Clock::time_point looked_at = Clock::now();  // when `bytes` had arrived
  curl_off_t bytes = 0;
  bool stalled = false;
  std::exception_ptr thrown = nullptr;
  bool stopped = false;  // by `body`
};

size_t take_header(char* data, size_t, size_t bytes, void* transfer) {
  HttpAnswer& head = static_cast<Transfer*>(transfer)->head;
  const std::string line(data, bytes);
  if (line.starts_with("HTTP/")) {  // an interim answer, such as 100 Continue, may precede it
    head = {};
    const size_t at = std::min(line.find(' '), line.size() - 1) + 1;
    std::from_chars(line.data() + at, line.data() + line.size(), head.status);
  }
  constexpr size_t kMaxHeaders = 500;
  const size_t colon = line.find(':');
  if (colon == std::string::npos || head.headers.size() >= kMaxHeaders) return bytes;
  const size_t begin = line.find_first_not_of(" \t", colon + 1), end = line.find_last_not_of(" \t\r\n");
  head.headers[lower_case(line.substr(0, colon))] =
      begin == std::string::npos || end < begin ? "" : line.substr(begin, end - begin + 1);
  return bytes;
}

struct Request {
  CURL* handle = curl().curl_easy_init();
  curl_slist* headers = nullptr;
  char reason[CURL_ERROR_SIZE] = "";

  Request() {
    if (!handle) fail("libcurl cannot make a request");
  }
  ~Request() {
    curl().curl_slist_free_all(headers);
    curl().curl_easy_cleanup(handle);
  }
  Request& operator=(Request&&) = delete;

  template <class T>
  void set(CURLoption option, T value) {
    const CURLcode code = curl().curl_easy_setopt(handle, option, value);
    if (code != CURLE_OK)
      fail("libcurl refuses option {}: {}", static_cast<int>(option), curl().curl_easy_strerror(code));
  }
  void add_header(const std::string& line) {
    curl_slist* longer = curl().curl_slist_append(headers, line.c_str());
    if (!longer) throw std::bad_alloc();
    headers = longer;
  }
};

size_t take_body(char* data, size_t, size_t bytes, void* transfer) {
  Transfer& t = *static_cast<Transfer*>(transfer);
  try {
    if (t.body(t.head, {data, bytes})) return bytes;
    t.stopped = true;
  } catch (...) {
    t.thrown = std::current_exception();
  }
  return 0;
}

// Called at least once a second. Ends the transfer unless it returns 0.
int look_at_progress(void* transfer, curl_off_t, curl_off_t bytes, curl_off_t, curl_off_t) {
  constexpr double kFewestBytesASecond = 1000;
  Transfer& t = *static_cast<Transfer*>(transfer);
  const auto now = Transfer::Clock::now();
  // Connecting may take as long before the first byte.
  const double seconds = t.timeout_seconds * (bytes == 0 ? 2 : 1);
  if (now - t.looked_at >= std::chrono::duration<double>(seconds)) {
    t.stalled = static_cast<double>(bytes - t.bytes) < kFewestBytesASecond * t.timeout_seconds;
    t.looked_at = now;
    t.bytes = bytes;
  }
  return t.stalled || interrupt_signal() != 0;
}

// Whether another try would meet the same error.
bool lasts(CURLcode code) {
  constexpr CURLcode kLasting[] = {
      CURLE_URL_MALFORMAT,        CURLE_UNSUPPORTED_PROTOCOL, CURLE_COULDNT_RESOLVE_PROXY,
      CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT,      CURLE_PEER_FAILED_VERIFICATION,
      CURLE_SSL_CACERT_BADFILE,   CURLE_SSL_CERTPROBLEM,      CURLE_SSL_INVALIDCERTSTATUS,
      CURLE_WEIRD_SERVER_REPLY,   CURLE_OUT_OF_MEMORY};
  return std::ranges::find(kLasting, code) != std::end(kLasting);
}

}  // namespace

bool can_fetch() { return true; }

HttpAnswer http_get(const HttpRequest& asked, const HttpBody& body) {
  check_interrupt();
  Request request;
  Transfer transfer{body, asked.timeout_seconds};
  request.set(CURLOPT_URL, asked.url.c_str());
  request.set(CURLOPT_PROTOCOLS_STR, "https,http");
  request.set(CURLOPT_USERAGENT, "saccade");
  request.set(CURLOPT_NOSIGNAL, 1L);
  request.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  request.set(CURLOPT_ERRORBUFFER, request.reason);
  request.set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(asked.timeout_seconds * 1000));
  request.set(CURLOPT_HEADERFUNCTION, &take_header);
  request.set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  request.set(CURLOPT_WRITEFUNCTION, &take_body);
  request.set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  request.set(CURLOPT_XFERINFOFUNCTION, &look_at_progress);
  request.set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
  request.set(CURLOPT_NOPROGRESS, 0L);
  if (const char* certificates = std::getenv("SSL_CERT_FILE")) request.set(CURLOPT_CAINFO, certificates);
  if (asked.offset > 0) request.add_header(fmt::format("Range: bytes={}-", asked.offset));
  if (asked.offset > 0 && !asked.if_range.empty()) request.add_header("If-Range: " + asked.if_range);
  if (request.headers) request.set(CURLOPT_HTTPHEADER, request.headers);

  const CURLcode code = curl().curl_easy_perform(request.handle);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  check_interrupt();
  if (transfer.stalled)
    throw HttpFailure(fmt::format("nothing, or almost nothing, arrived for {:.0f} s", asked.timeout_seconds),
                      true);
  if (code != CURLE_OK && !transfer.stopped) {
    const std::string reason = request.reason[0] ? request.reason : curl().curl_easy_strerror(code);
    throw HttpFailure(reason, !lasts(code));
  }
  if (char* to = nullptr;
      curl().curl_easy_getinfo(request.handle, CURLINFO_REDIRECT_URL, &to) == CURLE_OK && to)
    transfer.head.redirect = to;
  return transfer.head;
}
#else
bool can_fetch() { return false; }

HttpAnswer http_get(const HttpRequest& asked, const HttpBody&) {
  fail("{}: this program was built without libcurl4-openssl-dev and cannot download",
       without_passwords(asked.url));
}
#endif

}  // namespace saccade
