#include "tests/train/bad_inputs/table.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

#include "core/formats/safetensors.h"
#include "tests/test_folder.h"
#include "train/config/config.h"

namespace saccade {

namespace {

bool take_keyword(std::string& line, const std::string& word) {
  if (!line.starts_with(word + " ")) return false;
  line.erase(0, word.size() + 1);
  return true;
}

std::pair<std::string, std::string> halves(const std::string& text, const std::string& sign) {
  const size_t at = text.find(sign);
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + sign.size())};
}

BadRow read_row(const std::string& text, int line) {
  size_t at = text.rfind(" => ");
  const size_t skip = text.rfind(" =0> ");
  const bool is_skip = skip != std::string::npos && (at == std::string::npos || skip > at);
  if (is_skip) at = skip;
  if (at == std::string::npos) throw std::runtime_error("a row without =>");
  return {line, text.substr(0, at), text.substr(at + (is_skip ? 5 : 4)), is_skip};
}

std::string edited(std::string bytes, const std::string& edits) {
  for (std::string rest = edits; !rest.empty();) {
    std::string edit;
    std::tie(edit, rest) = halves(rest, "; ");
    auto [kind, what] = halves(edit, " ");
    const auto [first, second] = halves(what, " ");
    const std::string text = unescaped(second);
    if (kind == "add") {
      bytes += unescaped(what);
    } else if (kind == "swap") {
      const size_t at = bytes.find(unescaped(first));
      if (at == std::string::npos) throw std::runtime_error("nothing to swap: " + first);
      bytes.replace(at, unescaped(first).size(), text);
    } else {
      const int64_t number = std::stoll(first), size = static_cast<int64_t>(bytes.size());
      const auto at = static_cast<size_t>(number < 0 ? size + number : number);
      if (at > bytes.size() || (kind != "cut" && kind != "put"))
        throw std::runtime_error("no such edit: " + edit);
      if (kind == "cut")
        bytes.resize(at);
      else
        bytes.replace(at, text.size(), text);
    }
  }
  return bytes;
}

void write_changed_checkpoint(const BadBlock& block, const std::string& text) {
  const SafetensorsReader source(block.of);
  NamedValues tensors;
  for (const auto& entry : source.entries()) tensors.emplace_back(entry.name, source.read(entry.name));
  std::map<std::string, std::string> metadata = source.metadata();
  if (block.form == "set") {
    Config config = parse_config(metadata.at("saccade.config"), block.of);
    apply_set(config, text);
    metadata["saccade.config"] = config_text(config);
  } else if (block.form == "weights") {
    const auto [name, value] = halves(text, "=");
    for (auto& [tensor, values] : tensors)
      if (tensor == name) values = Tensor::full(values.shape(), std::stod(value), values.dtype());
  } else {
    const auto [key, value] = halves(text, "=");
    metadata[key] = value;
  }
  write_safetensors(block.file, tensors, metadata);
}

}  // namespace

std::vector<BadBlock> read_bad_table(const std::string& path) {
  std::ifstream in(path);
  std::vector<BadBlock> blocks(1);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    BadBlock& block = blocks.back();
    if (line.empty()) {
      blocks.emplace_back();
    } else if (line.starts_with("#")) {
      continue;
    } else if (take_keyword(line, "sh")) {
      block.shell.push_back(line);
    } else if (take_keyword(line, "env")) {
      block.environment.insert(halves(line, "="));
    } else if (take_keyword(line, "file")) {
      std::tie(block.file, line) = halves(line, " ");
      std::tie(block.form, block.of) = halves(line, " ");
    } else if (take_keyword(line, "run")) {
      block.commands.push_back(line);
    } else if (take_keyword(line, "|")) {
      block.rows.push_back(read_row(line, number));
    } else {
      throw std::runtime_error(fmt::format("{}:{}: no keyword", path, number));
    }
  }
  return blocks;
}

std::string unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char kind = text[++i];
    if (kind == '{') {
      const size_t colon = text.find(':', i), end = text.find('}', colon + 2);  // one that is not empty
      if (end == std::string::npos) throw std::runtime_error("a repetition without its end: " + text);
      const std::string part = unescaped(text.substr(colon + 1, end - colon - 1));
      for (int n = std::stoi(text.substr(i + 1, colon - i - 1)); n > 0; --n) out += part;
      i = end;
    } else if (kind == 'x') {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else if (kind == 'u') {
      out += "\\u";
    } else {
      out += kind == 'n' ? '\n' : kind == 't' ? '\t' : kind == 'r' ? '\r' : kind;
    }
  }
  return out;
}

std::vector<std::string> bad_words(const std::string& command, const std::string& row) {
  std::vector<std::string> raw, words;
  bool quoted = false, open = false;
  for (char c : command) {
    if (c == '\'') {
      if (!quoted && !open) raw.emplace_back();
      quoted = !quoted;
      open = true;
    } else if (c == ' ' && !quoted) {
      open = false;
    } else {
      if (!open) raw.emplace_back();
      raw.back() += c;
      open = true;
    }
  }
  for (const std::string& word : raw) {
    if (word == "ROWS") {
      for (const std::string& w : bad_words(row, "")) words.push_back(w);
      continue;
    }
    const size_t at = word.find("ROW");
    words.push_back(at == std::string::npos
                        ? unescaped(word)
                        : unescaped(word.substr(0, at)) + unescaped(row) + unescaped(word.substr(at + 3)));
  }
  return words;
}

void write_row(const BadBlock& block, const BadRow& row) {
  if (block.file.empty()) return;
  if (block.form.empty()) {
    write_bytes(block.file, unescaped(row.text));
  } else if (block.form == "edits") {
    write_bytes(block.file, edited(read_bytes(block.of), row.text));
  } else if (block.form == "header") {
    std::string header = unescaped(row.text), size(8, '\0');
    for (size_t i = 0; i < 8; ++i) size[i] = static_cast<char>(header.size() >> (8 * i));
    write_bytes(block.file, size + header + std::string(64, '\0'));
  } else if (block.form == "set" || block.form == "meta" || block.form == "weights") {
    write_changed_checkpoint(block, unescaped(row.text));
  } else {
    throw std::runtime_error("no such form: " + block.form);
  }
}

}  // namespace saccade
