// Philox4x32-10 (Salmon et al., SC 2011), a counter-based generator. The same (key, counter) gives the same
// numbers on every device, so masks can be recomputed rather than stored and parallel order does not matter.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "core/tensor/hd.h"

namespace saccade {

struct Philox {
  uint32_t x[4];

  // The 128 random bits of the counter (hi, lo) under a key.
  static SACCADE_HD Philox generate(uint64_t key, uint64_t hi, uint64_t lo) {
    Philox r{{static_cast<uint32_t>(lo), static_cast<uint32_t>(lo >> 32), static_cast<uint32_t>(hi),
              static_cast<uint32_t>(hi >> 32)}};
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      uint64_t p0 = uint64_t{0xD2511F53u} * r.x[0], p1 = uint64_t{0xCD9E8D57u} * r.x[2];
      r = Philox{{static_cast<uint32_t>(p1 >> 32) ^ r.x[1] ^ k0, static_cast<uint32_t>(p1),
                  static_cast<uint32_t>(p0 >> 32) ^ r.x[3] ^ k1, static_cast<uint32_t>(p0)}};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return r;
  }
};

// Returns a number in [0, 1) with 24 random bits.
SACCADE_HD float uniform_from_bits(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// A stream of random numbers on the host, for the data pipeline and the initialisers.
class Rng {
 public:
  explicit Rng(uint64_t key, uint64_t stream = 0) : key_(key), stream_(stream) {}

  uint32_t next() {
    if (used_ == 4) {
      block_ = Philox::generate(key_, stream_, counter_++);
      used_ = 0;
    }
    return block_.x[used_++];
  }
  double uniform() {  // [0, 1) with 53 bits
    uint64_t a = next() >> 5, b = next() >> 6;
    return static_cast<double>((a << 26) | b) * 0x1p-53;
  }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  int64_t below(int64_t n) { return static_cast<int64_t>(uniform() * static_cast<double>(n)); }  // [0, n)
  double normal() {  // Box-Muller; every second call returns the pair's other value
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double radius = std::sqrt(-2.0 * std::log(1.0 - uniform())),
           angle = 2.0 * 3.14159265358979323846 * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  uint64_t key_, stream_, counter_ = 0;
  Philox block_{};
  int used_ = 4;
  double spare_ = 0;
  bool has_spare_ = false;
};

// The FNV-1a hash, for keys derived from names: the initial values of a parameter depend on its name, not on
// its neighbours.
constexpr uint64_t hash_name(std::string_view name) {
  uint64_t h = 0xCBF29CE484222325ull;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return h;
}
// Mixes two numbers into a key (splitmix64).
constexpr uint64_t mix_key(uint64_t a, uint64_t b) {
  uint64_t z = a + 0x9E3779B97F4A7C15ull * (b + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace saccade
