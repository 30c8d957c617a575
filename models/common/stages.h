// Helpers for backbones of several stages. Stages are numbered from 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "layers/args.h"

namespace saccade {

// The limits of a backbone: far above anything people train, yet small enough to be built at once.
constexpr size_t kMaxStages = 8;
constexpr int64_t kMaxBlocks = 1024;  // per stage

// Returns the stages whose maps a backbone returns: `outputs` of its section, else `fallback`, else the last
// one. Throws InputError unless they are ascending and exist.
std::vector<int64_t> read_outputs(const Args& backbone, const std::vector<int64_t>& fallback, int64_t stages);

// Returns the entries of `per_stage` for the chosen stages.
template <class T>
std::vector<T> at_stages(const std::vector<T>& per_stage, const std::vector<int64_t>& chosen) {
  std::vector<T> entries;
  for (int64_t stage : chosen) entries.push_back(per_stage[static_cast<size_t>(stage - 1)]);
  return entries;
}

// Reads one number per stage, from 1 to `high`: the argument, or the first entries of `fallback`. Throws
// InputError for another count.
std::vector<int64_t> read_per_stage(const Args& backbone, const std::string& key,
                                    std::vector<int64_t> fallback, int64_t stages, int64_t high = 65536);
constexpr int64_t kMaxReduction = 64;  // side of the square that `spatial_reduction` merges into a key

// Stochastic depth: the drop probability of every block of every stage, rising linearly from 0 for the first
// block to `rate` for the last. depths: blocks of each stage.
std::vector<std::vector<double>> drop_path_rates(const std::vector<int64_t>& depths, double rate);

}  // namespace saccade
