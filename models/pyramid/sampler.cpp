#include "models/pyramid/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/tensor/philox.h"
#include "models/pyramid/max_iou_assigner.h"

namespace saccade {
namespace {

// Numbers of neighbouring positions are drawn together, in the lanes of vectors.
constexpr int64_t kTogether = 32;

// Computes x[0] of Philox::generate(key, image, position) for each position.
void first_numbers(uint64_t key, uint64_t image, uint64_t at, std::array<uint32_t, kTogether>& first) {
  std::array<uint32_t, kTogether> a, b, c, d;
  for (uint32_t i = 0; i < kTogether; ++i) {
    a[i] = static_cast<uint32_t>(at + i);
    b[i] = static_cast<uint32_t>((at + i) >> 32);
    c[i] = static_cast<uint32_t>(image);
    d[i] = static_cast<uint32_t>(image >> 32);
  }
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < kTogether; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * a[i], p1 = uint64_t{0xCD9E8D57u} * c[i];
      a[i] = static_cast<uint32_t>(p1 >> 32) ^ b[i] ^ k0;
      b[i] = static_cast<uint32_t>(p1);
      c[i] = static_cast<uint32_t>(p0 >> 32) ^ d[i] ^ k1;
      d[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  first = a;
}

// Returns those `count` of the positions with is(position) that have the smallest random numbers; there are
// `all` of them among `positions`.
template <class Is>
std::vector<int64_t> some(int64_t positions, int64_t all, int64_t count, uint64_t key, int64_t image_id,
                          const Is& is) {
  std::vector<int64_t> chosen;
  if (count <= 0) return chosen;
  if (all <= count) {
    for (int64_t at = 0; at < positions; ++at)
      if (is(at)) chosen.push_back(at);
    return chosen;
  }
  const auto image = static_cast<uint64_t>(image_id);
  // Only positions with small enough numbers are considered; these almost always suffice, else all are.
  const double wanted = static_cast<double>(count), likely = wanted + 8 * std::sqrt(wanted) + 16;
  double part = std::min(1.0, likely / static_cast<double>(all));
  std::vector<std::pair<uint64_t, int64_t>> drawn;
  for (;; part = 1) {
    drawn.clear();
    const auto limit = static_cast<uint64_t>(part * 0x1p32);
    std::array<uint32_t, kTogether> first;
    for (int64_t begin = 0; begin < positions; begin += kTogether) {
      first_numbers(key, image, static_cast<uint64_t>(begin), first);
      for (int64_t at = begin; at < std::min(begin + kTogether, positions); ++at) {
        if (first[static_cast<size_t>(at - begin)] >= limit || !is(at)) continue;
        const Philox bits = Philox::generate(key, image, static_cast<uint64_t>(at));
        drawn.emplace_back(uint64_t{bits.x[0]} << 32 | bits.x[1], at);
      }
    }
    if (std::ssize(drawn) >= count || part == 1) break;
  }
  std::nth_element(drawn.begin(), drawn.begin() + count, drawn.end());
  for (int64_t i = 0; i < count; ++i) chosen.push_back(drawn[static_cast<size_t>(i)].second);
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace

Sample sample_candidates(std::span<const int32_t> assigned, const SamplerOptions& options, uint64_t key,
                         int64_t image_id, std::string_view stage) {
  const uint64_t own = mix_key(key, hash_name(stage));
  auto keep = [&](int64_t count, const auto& is) {
    const int64_t all = std::ranges::count_if(assigned, is);
    return some(std::ssize(assigned), all, count, own, image_id,
                [&](int64_t at) { return is(assigned[static_cast<size_t>(at)]); });
  };
  Sample sample;
  sample.positives = keep(static_cast<int64_t>(static_cast<double>(options.count) * options.positives),
                          [](int32_t object) { return object >= 0; });
  sample.negatives = keep(options.count - std::ssize(sample.positives),
                          [](int32_t object) { return object == kBackground; });
  return sample;
}

}  // namespace saccade
