// The grammar of JSON (RFC 8259), for text that nobody reads and that must be right all the same.
#pragma once

#include <string_view>

namespace saccade {

// Where the text stops being one value with whitespace around it; null when it is one. Nesting is bounded. The text must be UTF-8.
const char* json_fault(std::string_view text);

}  // namespace saccade
