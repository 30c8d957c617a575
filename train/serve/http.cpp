#include "train/serve/http.h"

#include <fmt/format.h>

#include "core/files/text.h"
#include "core/formats/json.h"

namespace saccade {

ServiceAnswer error_answer(int status, const std::string& text) {
  return {.status = status, .body = fmt::format("{{\"error\": {}}}\n", json_quote(one_line(text)))};
}

ServiceAnswer busy_answer(const std::string& text) {
  ServiceAnswer answer = error_answer(503, text);
  answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

}  // namespace saccade
