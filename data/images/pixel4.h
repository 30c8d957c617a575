// One pixel as a vector of four numbers. It uses byte shuffles because GCC generates scalar code for
// __builtin_convertvector between bytes and integers.
#pragma once

#include <cstdint>
#include <cstring>

namespace saccade {

using Int4 = int32_t __attribute__((vector_size(16)));
using Byte16 = uint8_t __attribute__((vector_size(16)));

// Loads four bytes at p, of which the caller uses three.
inline Int4 load_pixel(const uint8_t* p) {
  uint32_t bytes;
  std::memcpy(&bytes, p, 4);
  Int4 lanes = {static_cast<int32_t>(bytes), 0, 0, 0};
  auto b = (Byte16)lanes;
  return (Int4)__builtin_shufflevector(b, b, 0, 8, 8, 8, 1, 8, 8, 8, 2, 8, 8, 8, 3, 8, 8,
                                       8);  // byte 8 is zero
}

// Clamps each lane to [0, 255] and returns them as four bytes.
inline uint32_t pack_pixel(Int4 v) {
  Int4 zero = {0, 0, 0, 0}, most = {255, 255, 255, 255};
  v = v > most ? most : v;
  v = v < zero ? zero : v;
  auto b = (Byte16)v;
  auto gathered = (Int4)__builtin_shufflevector(b, b, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
  return static_cast<uint32_t>(gathered[0]);
}

}  // namespace saccade
