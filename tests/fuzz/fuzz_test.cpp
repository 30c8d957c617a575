// Runs every fuzz target with its seeds, whole and damaged by a fixed stream of random numbers. libFuzzer,
// which learns from coverage, goes deeper (scripts/fuzz.sh); this test finds the faults near the seeds within
// seconds, in every build. SACCADE_FUZZ_RUNS: damaged inputs per target.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

#include "core/tensor/philox.h"
#include "tests/fuzz/target.h"

namespace saccade {
namespace fuzz {

static std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

bool add_target(const std::string& name, Target target) { return targets().emplace(name, target).second; }

}  // namespace fuzz

namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;

// Returns a target's seeds; those of weights are any reader's golden files.
std::vector<Bytes> seeds_of(const std::string& target) {
  const fs::path source = SACCADE_SOURCE_DIR, own = source / "tests/fuzz/seeds" / target;
  const std::map<std::string, std::vector<fs::path>> others = {
      {"image", {source / "tests/golden/images", source / "tests/golden/jpeg"}},
      {"weights", {source / "tests/golden"}},
      {"config", {source / "configs"}}};
  std::vector<fs::path> folders, files;
  if (auto it = others.find(target); it != others.end()) folders = it->second;
  if (fs::exists(own)) folders.push_back(own);
  for (const fs::path& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) files.push_back(entry.path());
  std::erase_if(files, [&](const fs::path& file) {
    const std::string ending = file.extension();
    if (target == "weights") return ending != ".safetensors" && ending != ".pth" && ending != ".pt";
    return ending == ".txt" || ending == ".md" || ending == ".proto";
  });
  std::sort(files.begin(), files.end());
  std::vector<Bytes> seeds;
  for (const fs::path& file : files) {
    if (fs::file_size(file) > 20'000) continue;
    std::ifstream in(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// Makes one to four changes: bits and bytes, numbers at their limits, pieces that are left out, repeated or
// taken from another seed.
Bytes damaged(const Bytes& seed, const Bytes& other, Rng& rng) {
  Bytes out = seed;
  const auto place = [&](const Bytes& in) { return rng.below(static_cast<int64_t>(in.size()) + 1); };
  const auto piece = [&](const Bytes& in) {
    const int64_t begin = place(in), longest = static_cast<int64_t>(in.size()) - begin;
    const int64_t length = rng.below(std::min<int64_t>(longest, rng.below(2) ? 8 : 256) + 1);
    return Bytes(in.begin() + begin, in.begin() + begin + length);
  };
  for (int64_t change = rng.below(4); change >= 0; --change) {
    const int64_t at = place(out);
    switch (rng.below(7)) {
      case 0:
        if (at < std::ssize(out)) out[at] ^= static_cast<uint8_t>(1u << rng.below(8));
        break;
      case 1:
        if (at < std::ssize(out)) out[at] = static_cast<uint8_t>(rng.next());
        break;
      case 2: {
        constexpr uint8_t kLimits[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', '[', '-', '9', '<', ','};
        const uint8_t value = kLimits[rng.below(std::ssize(kLimits))];
        for (int64_t i = at; i < std::min(std::ssize(out), at + (int64_t{1} << rng.below(4))); ++i)
          out[i] = value;
        break;
      }
      case 3:
        out.resize(at);
        break;
      case 4:
        out.erase(out.begin() + at, out.begin() + std::min(std::ssize(out), at + 1 + rng.below(32)));
        break;
      case 5: {
        const Bytes again = piece(out);
        out.insert(out.begin() + at, again.begin(), again.end());
        break;
      }
      default: {
        const Bytes foreign = piece(other);
        out.insert(out.begin() + at, foreign.begin(), foreign.end());
      }
    }
  }
  return out;
}

class FuzzTest : public testing::TestWithParam<const char*> {};

TEST_P(FuzzTest, SeedsAndWhatLiesNearThem) {
  const std::string name = GetParam();
  const auto target = fuzz::targets().find(name);
  ASSERT_NE(target, fuzz::targets().end());
  const std::vector<Bytes> seeds = seeds_of(name);
  ASSERT_GE(seeds.size(), name == "config" ? 2u : 1u);
  // An input that ends the process stays in this file.
  const std::string input = (fs::temp_directory_path() / ("saccade_fuzz_" + name + "_input")).string();
  const auto attempt = [&](const Bytes& bytes) {
    std::ofstream(input, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    target->second(bytes.data(), bytes.size());
  };
  attempt({});
  for (const Bytes& seed : seeds) attempt(seed);
  const char* runs = std::getenv("SACCADE_FUZZ_RUNS");
  Rng rng(35);
  const auto any = [&]() -> const Bytes& { return seeds[rng.below(std::ssize(seeds))]; };
  for (int64_t run = runs ? std::atoll(runs) : 500; run > 0; --run) {
    const Bytes &seed = any(), &other = any();
    attempt(damaged(seed, other, rng));
  }
  fs::remove(input);
  fs::remove_all(fuzz::folder());
  fs::create_directories(fuzz::folder());
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzTest,
                         testing::Values("image", "coco", "formats", "weights", "config", "run_log",
                                         "request"));

}  // namespace
}  // namespace saccade
