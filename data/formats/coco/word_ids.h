// Ids of COCO files that are strings instead of numbers.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

namespace saccade {

// Until all are known, an integer at the low end of the range stands for each.
class WordIds {
 public:
  static constexpr int64_t kFirst = std::numeric_limits<int64_t>::min(), kMax = int64_t{1} << 32;
  static bool is_word(int64_t id) { return id < kFirst + kMax; }

  // "7" is 7, but "007" is a word.
  int64_t id_of(const std::string& text) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && !is_word(number) && std::to_string(number) == text) return number;
    const auto [it, is_new] = places_.try_emplace(text, std::ssize(words_));
    if (is_new) words_.push_back(text);
    return kFirst + it->second;
  }
  const std::string& word(int64_t id) const { return words_.at(static_cast<size_t>(id - kFirst)); }
  bool empty() const { return words_.empty(); }

 private:
  std::unordered_map<std::string, int64_t> places_;
  std::vector<std::string> words_;
};

}  // namespace saccade
