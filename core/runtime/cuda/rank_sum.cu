#include "core/runtime/cuda/rank_sum.h"

#include "core/runtime/cuda/launch.h"
#include "core/tensor/hd.h"

namespace saccade::cuda {
namespace {

// index = element
struct RankSum {
  float* own;
  const float* received;
  int64_t part;
  int rank, size;
  SACCADE_HD void operator()(int64_t i) const {
    float sum = rank == 0 ? own[i] : received[i];
    for (int r = 1; r < size; ++r) sum += r == rank ? own[i] : received[r * part + i];
    own[i] = sum;
  }
};

}  // namespace

void add_ranks(float* own, const float* received, int64_t part, int rank, int size) {
  for_each(part, RankSum{own, received, part, rank, size});
}

}  // namespace saccade::cuda
