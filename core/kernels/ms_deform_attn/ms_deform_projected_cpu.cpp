// Samples the tokens, all their channels for every head, and projects the samples, where that is less work
// than projecting all tokens: the 300 queries of RT-DETR read 115,200 rows of 256 channels, which takes a
// third of the time of 8,400 rows times a matrix.
#include "core/kernels/common/small_gemm_cpu.h"
#include "core/kernels/ms_deform_attn/ms_deform_attn_cpu_points.h"
#include "core/kernels/ms_deform_attn/ms_deform_projected.h"
#include "core/runtime/parallel.h"
#include "core/tensor/prepared.h"

namespace saccade::kernels {
namespace {

using namespace cpu;

constexpr int64_t kQueries = 4 * kTileRows;       // of a unit of work
constexpr int64_t kSummed = 128;                  // channels that are summed before the sums are stored
constexpr int kSampled = kWideRegisters ? 8 : 4;  // vectors of channels that are sampled at a time
constexpr int64_t kRowCost = 8;                   // reading a row, in products with a channel

// The corners of all points of one query and head, with their weights: those of the attention as well.
struct Corners {
  int64_t count = 0;
  LaneVector<float> attention, weight;
  LaneVector<int32_t> cell;

  explicit Corners(int64_t padded)
      : attention(static_cast<size_t>(padded)),
        weight(static_cast<size_t>(4 * padded)),
        cell(static_cast<size_t>(4 * padded)) {}

  // Returns the sum of the weights. padding [S] may be null.
  float find(const Inputs& in, const PointTable& table, int64_t row, const bool* padding) {
    softmax(in.logits + row * in.K, in.K, table.padded, attention.data());
    count = 4 * table.padded;
    for (int64_t j = 0; j < table.padded; j += kLanes) {
      const Chunk chunk = locate(in, table, row, j);
      const Floats weights = load(attention.data() + j);
      for (int c = 0; c < 4; ++c) {
        store(weight.data() + 4 * j + c * kLanes, chunk.weight[c] * weights);
        store(cell.data() + 4 * j + c * kLanes, chunk.cell[c]);
      }
    }
    if (padding)
      for (int64_t i = 0; i < count; ++i)
        if (padding[cell[static_cast<size_t>(i)]]) weight[static_cast<size_t>(i)] = 0;
    Floats total{};
    for (int64_t i = 0; i < count; i += kLanes) total += load(weight.data() + i);
    return sum(total);
  }
};

// to = the weighted sum of kVectors vectors of the corners' rows.
template <int kVectors>
void sample(const Corners& corners, const float* tokens, int64_t C, float* to) {
  Floats acc[kVectors] = {};
  for (int64_t i = 0; i < corners.count; ++i) {
    const float w = corners.weight[static_cast<size_t>(i)];
    if (w == 0) continue;  // outside the map, or after the last point
    const float* row = tokens + corners.cell[static_cast<size_t>(i)] * C;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) acc[v] += w * load(row + v * kLanes);
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) store(to + v * kLanes, acc[v]);
}

void sample_row(const Corners& corners, const float* tokens, int64_t C, float* to) {
  int64_t c = 0;
  for (; c + kSampled * kLanes <= C; c += kSampled * kLanes) sample<kSampled>(corners, tokens + c, C, to + c);
  for (; c < C; c += kLanes) sample<1>(corners, tokens + c, C, to + c);
}

void projected_cpu(const Tensor& tokens, const Tensor& padding, const Tensor& w, const Tensor& bias,
                   const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                   const FeatureLevels& levels, Tensor& y) {
  const int64_t C = tokens.dim(2), M = offsets.dim(2), D = w.dim(0) / M;
  const Inputs in = inputs_of(D, reference, offsets, logits, levels);
  const Tensor panels =  // [M, C, D]
      prepared(w, "panels of " + std::to_string(M) + " heads", [&] {
        return w.reshape({M, D, C}).permute({0, 2, 1}).contiguous();
      });
  const PointTable table(levels, in.P);
  const int64_t blocks = ceil_div(in.Q, kQueries);
  parallel_for(in.N * blocks * M, 1, [&](int64_t from, int64_t to) {
    Corners corners(table.padded);
    LaneVector<float> sampled(static_cast<size_t>(kQueries * C)), product(static_cast<size_t>(kQueries * D));
    float inside[kQueries];
    for (int64_t unit = from; unit < to; ++unit) {
      const int64_t m = unit % M, n = unit / M / blocks, begin = unit / M % blocks * kQueries;
      const int64_t count = std::min(kQueries, in.Q - begin);
      const bool* padded = padding.defined() ? padding.data<bool>() + n * in.S : nullptr;
      for (int64_t q = 0; q < count; ++q) {
        inside[q] = corners.find(in, table, (n * in.Q + begin + q) * M + m, padded);
        sample_row(corners, tokens.data<float>() + n * in.S * C, C, sampled.data() + q * C);
      }
      for (int64_t c = 0; c < C; c += kSummed) {
        const auto multiply = c > 0 ? &small_gemm<true> : &small_gemm<false>;
        multiply(count, D, std::min(kSummed, C - c), sampled.data() + c, C, 1,
                 panels.data<float>() + (m * C + c) * D, D, product.data(), D);
      }
      for (int64_t q = 0; q < count; ++q) {
        float* out = y.data<float>() + ((n * in.Q + begin + q) * M + m) * D;
        for (int64_t d = 0; d < D; d += kLanes)
          store(out + d, load(product.data() + q * D + d) + inside[q] * load(bias.data<float>() + m * D + d));
      }
    }
  });
}

// Returns whether reading the rows of all corners takes less time than projecting all tokens.
bool few_queries(const Tensor& tokens, const Tensor&, const Tensor& w, const Tensor&, const Tensor&,
                 const Tensor& offsets, const Tensor& logits, const FeatureLevels&, const Tensor& y) {
  const int64_t M = offsets.dim(2), rows = offsets.dim(1) * M * logits.dim(3) * 4;
  return y.numel() > 0 && y.dtype() == DType::kF32 && tokens.dim(2) % kLanes == 0 &&
         w.dim(0) % (M * kLanes) == 0 && kRowCost * rows < tokens.dim(1) * w.dim(0);
}

SACCADE_REGISTER_TUNED_KERNEL(ms_deform_projected, Device::kCpu, &projected_cpu, &few_queries);

}  // namespace
}  // namespace saccade::kernels
