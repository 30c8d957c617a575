// Shape: the sizes of a tensor, at most kMaxRank of them, held inline. Also used for strides (in elements).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "core/tensor/error.h"

namespace saccade {

class Shape {
 public:
  static constexpr int kMaxRank = 8;
  static constexpr int64_t kMaxElements = int64_t{1} << 56;  // so that byte counts fit too

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) {
    SACCADE_CHECK(dims.size() <= kMaxRank, "[shape] rank {} exceeds {}", dims.size(), kMaxRank);
    rank_ = static_cast<int>(dims.size());
    std::copy(dims.begin(), dims.end(), dims_.begin());
  }
  // A shape of `rank` equal entries.
  static Shape filled(int rank, int64_t value) {
    Shape s;
    SACCADE_CHECK(rank >= 0 && rank <= kMaxRank, "[shape] rank {} exceeds {}", rank, kMaxRank);
    s.rank_ = rank;
    std::fill_n(s.dims_.begin(), rank, value);
    return s;
  }

  int rank() const { return rank_; }
  // Returns the index of an axis. A negative one counts from the end, as in Python. Throws if out of range.
  int axis(int i) const {
    SACCADE_CHECK(i >= -rank_ && i < rank_, "[shape] axis {} out of range for {}", i, to_string());
    return i < 0 ? i + rank_ : i;
  }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(axis(i))]; }
  int64_t& operator[](int i) { return dims_[static_cast<size_t>(axis(i))]; }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t d : *this) n *= d;
    return n;
  }
  // The same for sizes from outside. Throws if one is negative or if the product exceeds any possible memory.
  int64_t checked_numel() const {
    int64_t n = 1;
    bool fits = true;
    for (int64_t d : *this) fits &= d >= 0 && !__builtin_mul_overflow(n, d, &n);
    SACCADE_CHECK(fits && n < kMaxElements, "[tensor] no tensor can have the shape {}", to_string());
    return n;
  }
  void push_back(int64_t d) {
    SACCADE_CHECK(rank_ < kMaxRank, "[shape] rank exceeds {}", kMaxRank);
    dims_[static_cast<size_t>(rank_++)] = d;
  }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  bool operator==(const Shape& o) const { return rank_ == o.rank_ && std::equal(begin(), end(), o.begin()); }
  std::string to_string() const;  // "[2, 3, 4]"

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// Row-major strides of a contiguous tensor of this shape.
Shape contiguous_strides(const Shape& shape);
// NumPy broadcasting of two shapes. Throws an error that names both (and `tag`) if they do not fit.
Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view tag);

}  // namespace saccade

// Formats a shape in messages as its to_string().
template <>
struct fmt::formatter<saccade::Shape> : fmt::formatter<std::string> {
  auto format(const saccade::Shape& shape, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(shape.to_string(), context);
  }
};
