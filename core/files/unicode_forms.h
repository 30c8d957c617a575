// The two Unicode spellings of one text: accented letters as one character (NFC), as most systems write file
// names, or as a letter followed by its accents (NFD), as Apple's systems do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Returns the text in either form; unchanged if it is plain ASCII or not UTF-8. Accents keep their order.
std::string composed(std::string_view text);
std::string decomposed(std::string_view text);
// Returns the text and its other spellings.
std::vector<std::string> spellings_of(const std::string& text);

}  // namespace saccade
