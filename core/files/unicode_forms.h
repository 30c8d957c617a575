// One text in two spellings of Unicode: letters with accents as one character (NFC), as most systems write
// file names, or as a letter and its accents (NFD), as those of Apple do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// The text as it is in either form; as it stands where it is plain ASCII or no UTF-8. Accents are taken in
// the order in which they stand.
std::string composed(std::string_view text);
std::string decomposed(std::string_view text);
// The text, and its other spellings.
std::vector<std::string> spellings_of(const std::string& text);

}  // namespace saccade
