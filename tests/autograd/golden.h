// Reads the f32 tensors of a golden safetensors file as scripts/golden/safetensors_io.py writes them (the
// program's own reader lies above this folder).
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"

namespace saccade {

class Golden {
 public:
  // `name` is relative to tests/golden.
  explicit Golden(const std::string& name) {
    std::string path = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/" + name;
    std::ifstream file(path, std::ios::binary);
    SACCADE_CHECK(file.good(), "[golden] cannot open {}", path);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    uint64_t size = 0;
    std::memcpy(&size, bytes_.data(), sizeof size);
    header_ = bytes_.substr(8, size);
  }
  Tensor operator[](const std::string& name) const {
    size_t at = header_.find("\"" + name + "\":{\"dtype\":\"F32\"");
    SACCADE_CHECK(at != std::string::npos, "[golden] no f32 tensor {}", name);
    auto dims = numbers_after("\"shape\":[", at), range = numbers_after("\"data_offsets\":[", at);
    Tensor t = Tensor::empty(Shape(std::span<const int64_t>(dims)));
    size_t begin = 8 + header_.size() + static_cast<size_t>(range.at(0));
    SACCADE_CHECK(begin + t.bytes() <= bytes_.size(), "[golden] {} lies outside the file", name);
    std::memcpy(t.raw(), bytes_.data() + begin, t.bytes());
    return t;
  }

 private:
  std::vector<int64_t> numbers_after(const std::string& key, size_t from) const {
    std::vector<int64_t> out;
    const char* p = header_.c_str() + header_.find(key, from) + key.size();
    while (*p != ']') {
      char* end;
      out.push_back(std::strtoll(p, &end, 10));
      p = *end == ',' ? end + 1 : end;
    }
    return out;
  }

  std::string bytes_, header_;
};

}  // namespace saccade
