// Finds duplicate images: the same bytes, or nearly the same picture. Pictures are alike if few bits of a
// difference hash differ (Zauner 2010, "Implementation and Benchmarking of Perceptual Image Hash Functions")
// and the brightness of 16 x 16 fields correlates; both hardly change if a picture is recompressed, scaled or
// made a little brighter.
#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "data/pages/split.h"

namespace saccade {
namespace {

constexpr int kMaxBits = 8;  // of 64
constexpr double kLeastCorrelation = 0.99;
constexpr double kLeastContrast =
    4;  // standard deviation, in levels; with less, different pictures look alike

// The fields, normalised to mean 0 and length 1.
struct Signature {
  ImagePlace place;
  uint64_t hash = 0;
  double ratio = 1;  // width / height
  std::array<float, 256> fields{};
};

bool make_signature(const ImagePlace& place, const ImageLook& look, Signature& out) {
  double mean = 0, square = 0;
  for (uint8_t v : look.fields) mean += v;
  mean /= 256;
  for (uint8_t v : look.fields) square += (v - mean) * (v - mean);
  if (square < kLeastContrast * kLeastContrast * 256) return false;
  for (size_t i = 0; i < 256; ++i)
    out.fields[i] = static_cast<float>((look.fields[i] - mean) / std::sqrt(square));
  out.place = place;
  out.hash = look.hash;
  out.ratio = static_cast<double>(look.size.width) / static_cast<double>(look.size.height);
  return true;
}

// Compares pictures whose hashes are close to each other.
bool alike(const Signature& a, const Signature& b) {
  if (a.ratio > 1.05 * b.ratio || b.ratio > 1.05 * a.ratio) return false;
  double correlation = 0;
  for (size_t i = 0; i < 256; ++i)
    correlation += static_cast<double>(a.fields[i]) * static_cast<double>(b.fields[i]);
  return correlation >= kLeastCorrelation;
}

}  // namespace

std::vector<DuplicateGroup> find_duplicates(const ImageLooks& looks) {
  std::vector<DuplicateGroup> groups;
  std::unordered_map<uint64_t, size_t> by_checksum;  // index in groups
  for (size_t s = 0; s < looks.size(); ++s)
    for (size_t i = 0; i < looks[s].size(); ++i) {
      if (!looks[s][i].is_looked_at) continue;
      auto [it, is_new] = by_checksum.emplace(looks[s][i].checksum, groups.size());
      if (is_new) groups.push_back({.images = {}, .is_exact = true});
      groups[it->second].images.push_back({s, i});
    }
  for (DuplicateGroup& g : groups) {  // the images are in ascending order
    g.copies = std::ssize(g.images) - 1;
    g.is_exact_leak = g.images.front().split != g.images.back().split;
  }
  // Each group is compared with the leaders, the first of each set of similar groups, so that many similar
  // ones cost little. The hashes are stored together, since they nearly always decide.
  std::vector<uint64_t> hashes;
  std::vector<std::pair<Signature, size_t>> leaders;
  for (size_t g = 0; g < groups.size(); ++g) {
    const ImagePlace first = groups[g].images.front();
    Signature own;
    if (!make_signature(first, looks[first.split][first.image], own)) continue;
    size_t k = 0;
    while (k < hashes.size() &&
           !(std::popcount(hashes[k] ^ own.hash) <= kMaxBits && alike(leaders[k].first, own)))
      ++k;
    if (k == hashes.size()) {
      hashes.push_back(own.hash);
      leaders.emplace_back(own, g);
      continue;
    }
    DuplicateGroup& joined = groups[leaders[k].second];
    joined.is_exact = false;
    joined.copies += groups[g].copies;
    joined.is_exact_leak |= groups[g].is_exact_leak;
    joined.images.insert(joined.images.end(), groups[g].images.begin(), groups[g].images.end());
    groups[g].images.clear();
  }
  std::erase_if(groups, [](const DuplicateGroup& g) { return g.images.size() < 2; });
  for (DuplicateGroup& g : groups) {
    std::sort(g.images.begin(), g.images.end());
    g.is_leak = g.images.front().split != g.images.back().split;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const DuplicateGroup& a, const DuplicateGroup& b) {
    return std::tuple(a.is_leak, a.is_exact_leak, a.is_exact) >
           std::tuple(b.is_leak, b.is_exact_leak, b.is_exact);
  });
  return groups;
}

}  // namespace saccade
