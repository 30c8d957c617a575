#include "core/formats/json_syntax.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <string>

#include "core/tensor/philox.h"

namespace saccade {
namespace {

TEST(JsonSyntax, TakesJsonAndNothingElse) {
  for (const char* good :
       {"0", "-0", "12.5e-3", "1E+5", "1234567890123456789012345678901234567890.12345678901234567890",
        " true ", "false", "null", "\"\"", R"("a\"\\\/\b\f\n\r\té\ud800")", "\"\xC3\xA9\"", "[]", "[ ]", "{}",
        "{ }", "[1,2 , [3 ] ]", R"({"a":1,"a" : {"b":[{},[],null]}})", "[12345678,123456789,1234567.8]"})
    EXPECT_EQ(check_json(good).what, nullptr) << good;
  const std::pair<const char*, size_t> bad[] = {{"", 0},
                                                {" ", 1},
                                                {"01", 2},
                                                {"-", 1},
                                                {"+1", 0},
                                                {".5", 0},
                                                {"1.", 2},
                                                {"1.e5", 2},
                                                {"1e", 2},
                                                {"1e+", 3},
                                                {"0x10", 1},
                                                {"1_000", 1},
                                                {"NaN", 0},
                                                {"Infinity", 0},
                                                {"-Infinity", 1},
                                                {"tru", 0},
                                                {"True", 0},
                                                {"truee", 4},
                                                {"nul", 0},
                                                {"'a'", 0},
                                                {"\"a", 2},
                                                {"\"\\q\"", 2},
                                                {"\"\\u12g4\"", 5},
                                                {"\"\\u12\"", 5},
                                                {"\"a\nb\"", 2},
                                                {"[1,]", 3},
                                                {"[,1]", 1},
                                                {"[1 2]", 3},
                                                {"[1", 2},
                                                {"[1}", 2},
                                                {"]", 0},
                                                {"[1]]", 3},
                                                {"{\"a\" 1}", 5},
                                                {"{\"a\":}", 5},
                                                {"{\"a\":1,}", 7},
                                                {"{a:1}", 1},
                                                {"{1:1}", 1},
                                                {"{\"a\":1 \"b\":2}", 7},
                                                {"{\"a\":1]", 6},
                                                {"{\"a\"}", 4},
                                                {"{,}", 1},
                                                {"1 2", 2},
                                                {"{} {}", 3},
                                                {"[1,2] // no", 6},
                                                {"\"\\", 2}};
  for (auto [text, at] : bad) {
    const JsonFault fault = check_json(text);
    EXPECT_NE(fault.what, nullptr) << text;
    EXPECT_EQ(fault.at, at) << text;
  }
}

TEST(JsonSyntax, TheFirstFaultOfRefusedText) {
  for (const auto& [text, at] : {std::pair{"[\"a\xFF\"]", size_t{3}}, {"[1,]\xFF", 3}, {"[\xC3\xA4", 1}}) {
    EXPECT_NE(fault_of_json(text).what, nullptr) << text;
    EXPECT_EQ(fault_of_json(text).at, at) << text;
  }
  EXPECT_EQ(fault_of_json("[\"\xC3\xA4\"]").what, nullptr);
}

// Lists of plain numbers are checked many bytes at a time, and a fault is found wherever it is.
TEST(JsonSyntax, LongListsOfNumbers) {
  simdjson::dom::parser parser;
  Rng rng(5);
  int valid = 0, broken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = "[";
    for (int64_t k = rng.below(60); k >= 0; --k) {
      const int64_t kind = rng.below(6);
      text += kind == 0 ? std::to_string(rng.below(10)) : std::to_string(rng.below(100000));
      if (kind > 2) text += "." + std::to_string(rng.below(1000));
      text += k > 0 ? "," : "]";
    }
    if (round % 4 > 0) {
      const auto at = static_cast<size_t>(rng.below(static_cast<int64_t>(text.size())));
      const char c = "0123456789..,,-e []"[rng.below(19)];
      if (round % 4 == 1) text[at] = c;
      if (round % 4 == 2) text.insert(at, 1, c);
      if (round % 4 == 3) text.erase(at, 1);
    }
    const bool ours = check_json(text).what == nullptr;
    const simdjson::error_code theirs = parser.parse(text).error();
    if (ours && theirs == simdjson::NUMBER_ERROR && text.find('e') != text.npos) continue;  // 1e999 is JSON
    EXPECT_EQ(ours, theirs == simdjson::SUCCESS) << text << ": " << simdjson::error_message(theirs);
    ++(ours ? valid : broken);
  }
  EXPECT_GT(valid, 5000);
  EXPECT_GT(broken, 1500);
}

TEST(JsonSyntax, DepthIsBounded) {
  auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(check_json(nested(kMaxJsonDepth)).what, nullptr);
  EXPECT_STREQ(check_json(nested(kMaxJsonDepth + 1)).what, "nested too deeply");
  EXPECT_STREQ(check_json(std::string(5'000'000, '[')).what, "nested too deeply");
}

// simdjson's other parser, which checks everything, agrees about damaged text.
TEST(JsonSyntax, AgreesWithAFullParser) {
  const std::string good =
      R"({"a": [1, -2.5e3, 0.125, {"b": "x\n\u00e9", "c": [true, false, null]}], "d": {}, "e": 12345678})";
  const std::string_view alphabet = "{}[]:,\"\\0123456789-+.eEtfnu ab";
  simdjson::dom::parser parser;
  Rng rng(11);
  int valid = 0, broken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (int64_t k = rng.below(3) + 1; k > 0; --k) {
      const auto at = static_cast<size_t>(rng.below(static_cast<int64_t>(text.size())));
      const char c = alphabet[static_cast<size_t>(rng.below(static_cast<int64_t>(alphabet.size())))];
      switch (rng.below(4)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.erase(at, 1);
          break;
        case 2:
          text.insert(at, 1, c);
          break;
        default:
          text.resize(at + 1);
      }
    }
    const bool ours = check_json(text).what == nullptr;
    const simdjson::error_code theirs = parser.parse(text).error();
    // It also wants numbers to fit into 64 bits and halves of surrogate pairs to be whole.
    if (ours && (theirs == simdjson::NUMBER_ERROR || theirs == simdjson::STRING_ERROR)) continue;
    EXPECT_EQ(ours, theirs == simdjson::SUCCESS) << text << ": " << simdjson::error_message(theirs);
    ++(ours ? valid : broken);
  }
  EXPECT_GT(valid, 1000);
  EXPECT_GT(broken, 1000);
}

}  // namespace
}  // namespace saccade
