// Uploads small tables of the host to a device in one copy.
#pragma once

#include <cstring>
#include <vector>

#include "core/tensor/integers.h"
#include "core/tensor/tensor.h"

namespace saccade {

class PackedUpload {
 public:
  // Copies the values, whose number must match the shape, and returns the table's number.
  template <class T>
  size_t add(const Shape& shape, const std::vector<T>& values) {
    SACCADE_CHECK(std::ssize(values) == shape.numel(), "[upload] {} values for shape {}", values.size(),
                  shape);
    const size_t begin = bytes_.size(), size = values.size() * sizeof(T);
    bytes_.resize(static_cast<size_t>(round_up(static_cast<int64_t>(begin + size), kAlignment)));
    if (size > 0) std::memcpy(bytes_.data() + begin, values.data(), size);
    tables_.push_back({shape, dtype_of<T>, begin});
    return tables_.size() - 1;
  }
  // Returns the tables in order of their numbers, as views of one block of device memory.
  std::vector<Tensor> upload(Device device) const {
    const Tensor all = Tensor::from<uint8_t>({std::ssize(bytes_)}, bytes_, device);
    std::vector<Tensor> out;
    for (const Table& t : tables_) {
      const auto first = static_cast<int64_t>(t.begin / size_of(t.dtype));
      out.push_back(
          all.slice(0, first, first + t.shape.numel()).view_of(all.storage(), t.dtype).reshape(t.shape));
    }
    return out;
  }

 private:
  static constexpr int64_t kAlignment = 16;
  struct Table {
    Shape shape;
    DType dtype;
    size_t begin;
  };
  std::vector<uint8_t> bytes_;
  std::vector<Table> tables_;
};

}  // namespace saccade
