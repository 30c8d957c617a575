// RoIAlign for f32 and bf16 maps, sixteen channels at a time. It is fast for these reasons:
//   - the samples of a box's cell on one axis fall into few cells of the map: their weights are added up
//     first, so that a cell of the map is read once per cell of the box ((g + 1)^2 reads for g x g samples
//     instead of 4 g^2);
//   - backward iterates over rows of the map: the contributions of a box to a row are first summed over the
//     box's rows, then spread over columns;
//   - one thread owns a band of rows and adds the boxes in order: no atomics, and the same bits for any
//     number of threads.
#include "core/kernels/roi_align/roi_align.h"

#include <algorithm>
#include <numeric>

#include "core/kernels/common/lane_vector.h"
#include "core/kernels/common/vector_cpu.h"
#include "core/kernels/roi_align/roi_samples.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

using cpu::Floats;
using cpu::kLanes;
using cpu::LaneVector;

// Means over the samples of one axis: cell p of the box is the sum of cells first[p] + k of the map times
// weight(p)[k], k < count[p].
class RoiTable {
 public:
  RoiTable() = default;
  RoiTable(const RoiAxis<float>& axis, int size) : first_(static_cast<size_t>(size)), begin_{0} {
    const float part = axis.samples > 0 ? 1.0f / static_cast<float>(axis.samples) : 0;
    for (int p = 0; p < size; ++p) {
      const size_t begin = weights_.size();
      int first = -1;
      for (int i = 0; i < axis.samples; ++i) {
        const auto s = axis.sample(p, i);
        if (s.weight_low + s.weight_high == 0) continue;
        if (first < 0) first = s.low;
        weights_.resize(std::max(weights_.size(), begin + static_cast<size_t>(s.high - first) + 1), 0);
        weights_[begin + static_cast<size_t>(s.low - first)] += s.weight_low * part;
        weights_[begin + static_cast<size_t>(s.high - first)] += s.weight_high * part;
      }
      first_[static_cast<size_t>(p)] = std::max(first, 0);
      begin_.push_back(weights_.size());
    }
  }
  int first(int p) const { return first_[static_cast<size_t>(p)]; }
  int count(int p) const {
    return static_cast<int>(begin_[static_cast<size_t>(p) + 1] - begin_[static_cast<size_t>(p)]);
  }
  const float* weights(int p) const { return weights_.data() + begin_[static_cast<size_t>(p)]; }
  bool empty() const { return weights_.empty(); }
  // All cells of the map are in [low(), high()).
  int low() const {
    for (size_t p = 0; p < first_.size(); ++p)
      if (count(static_cast<int>(p)) > 0) return first_[p];
    return 0;
  }
  int high() const {
    int end = 0;
    for (int p = 0; p < static_cast<int>(first_.size()); ++p)
      if (count(p) > 0) end = std::max(end, first(p) + count(p));
    return end;
  }

 private:
  std::vector<int> first_;
  std::vector<size_t> begin_;
  std::vector<float> weights_;
};

struct RoiTables {
  RoiTable rows, columns;
  RoiTables() = default;
  RoiTables(const RoiBoxes& boxes, int64_t r) {
    if (!boxes.has_map(r)) return;
    rows = RoiTable(boxes.rows<float>(r), boxes.size);
    columns = RoiTable(boxes.columns<float>(r), boxes.size);
  }
  bool empty() const { return rows.empty() || columns.empty(); }
};

// Computes kVectors vectors of channels of one cell; the last one may have only `lanes` channels.
template <int kVectors, class T>
void roi_cell(const T* map, int64_t W, int64_t C, const RoiTables& t, int p, int q, int64_t lanes, T* y) {
  Floats sum[kVectors] = {};
  for (int i = 0; i < t.rows.count(p); ++i) {
    const T* row = map + ((t.rows.first(p) + i) * W + t.columns.first(q)) * C;
    for (int j = 0; j < t.columns.count(q); ++j) {
      const Floats w = cpu::broadcast(t.rows.weights(p)[i] * t.columns.weights(q)[j]);
      const T* cell = row + j * C;
      if (lanes == kLanes)
        for (int k = 0; k < kVectors; ++k) sum[k] += w * cpu::load(cell + k * kLanes);
      else
        sum[0] += w * cpu::load_some(cell, lanes);
    }
  }
  for (int k = 0; k < kVectors; ++k) cpu::store_some(y + k * kLanes, sum[k], lanes);
}

template <class T>
void forward_typed(const RoiBoxes& boxes, const std::vector<Tensor>& levels, Tensor& y) {
  const int64_t C = boxes.C, cells = int64_t{boxes.size} * boxes.size;
  parallel_for(boxes.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      T* out = y.data<T>() + r * cells * C;
      const RoiTables t(boxes, r);
      if (t.empty()) {
        std::fill_n(out, cells * C, T(0.0f));
        continue;
      }
      const auto l = static_cast<size_t>(boxes.levels[r]);
      const int64_t W = boxes.width[l];
      const T* map = levels[l].data<T>() + boxes.images[r] * boxes.height[l] * W * C;
      for (int p = 0; p < boxes.size; ++p) {
        for (int q = 0; q < boxes.size; ++q, out += C) {
          int64_t c = 0;
          for (; c + 8 * kLanes <= C; c += 8 * kLanes) roi_cell<8>(map + c, W, C, t, p, q, kLanes, out + c);
          for (; c + 2 * kLanes <= C; c += 2 * kLanes) roi_cell<2>(map + c, W, C, t, p, q, kLanes, out + c);
          for (; c < C; c += kLanes)
            roi_cell<1>(map + c, W, C, t, p, q, std::min<int64_t>(kLanes, C - c), out + c);
        }
      }
    }
  });
}

// to += w * from
template <class T>
void add_scaled(float* to, float w, const T* from, int64_t count) {
  int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes)
    cpu::store(to + c, cpu::load(to + c) + cpu::broadcast(w) * cpu::load(from + c));
  for (; c < count; ++c) to[c] += w * static_cast<float>(from[c]);
}

constexpr int kBandRows = 4;

// Rows [first, last) of a level's map of an image, and the boxes that touch them.
struct RoiBand {
  int level, image, first, last;
  std::vector<int64_t> boxes = {};
  int64_t cost = 0;
};

std::vector<RoiBand> make_bands(const RoiBoxes& boxes, const std::vector<RoiTables>& tables,
                                const std::vector<Tensor>& dlevels) {
  std::vector<RoiBand> bands;
  std::vector<size_t> begin(dlevels.size());
  for (int l = 0; l < boxes.level_count; ++l) {
    begin[static_cast<size_t>(l)] = bands.size();
    if (!dlevels[static_cast<size_t>(l)].defined()) continue;
    for (int n = 0; n < boxes.N; ++n)
      for (int row = 0; row < boxes.height[l]; row += kBandRows)
        bands.push_back({l, n, row, std::min(row + kBandRows, boxes.height[l])});
  }
  for (int64_t r = 0; r < boxes.count; ++r) {
    const RoiTables& t = tables[static_cast<size_t>(r)];
    if (t.empty()) continue;
    const auto l = static_cast<size_t>(boxes.levels[r]);
    const int64_t of_image = ceil_div(boxes.height[l], kBandRows);
    const size_t first = begin[l] + static_cast<size_t>(boxes.images[r] * of_image);
    for (int b = t.rows.low() / kBandRows; b * kBandRows < t.rows.high(); ++b) {
      RoiBand& band = bands[first + static_cast<size_t>(b)];
      band.boxes.push_back(r);
      band.cost += t.columns.high() - t.columns.low() + 2 * boxes.size;
    }
  }
  return bands;
}

template <class T>
void fill_band(const RoiBoxes& boxes, const std::vector<RoiTables>& tables, const RoiBand& band, const T* dy,
               float* rows, float* strip) {
  const int64_t W = boxes.width[band.level], C = boxes.C, size = boxes.size, across = size * C;
  std::fill_n(rows, (band.last - band.first) * W * C, 0.0f);
  for (int64_t r : band.boxes) {
    const RoiTables& t = tables[static_cast<size_t>(r)];
    for (int row = std::max(band.first, t.rows.low()); row < std::min(band.last, t.rows.high()); ++row) {
      std::fill_n(strip, across, 0.0f);
      for (int p = 0; p < size; ++p) {
        const int i = row - t.rows.first(p);
        if (i >= 0 && i < t.rows.count(p))
          add_scaled(strip, t.rows.weights(p)[i], dy + (r * size + p) * across, across);
      }
      float* to = rows + (row - band.first) * W * C;
      for (int q = 0; q < size; ++q)
        for (int j = 0; j < t.columns.count(q); ++j)
          add_scaled(to + (t.columns.first(q) + j) * C, t.columns.weights(q)[j], strip + q * C, C);
    }
  }
}

template <class T>
void backward_typed(const RoiBoxes& boxes, const Tensor& dy, std::vector<Tensor>& dlevels) {
  std::vector<RoiTables> tables(static_cast<size_t>(boxes.count));
  parallel_for(boxes.count, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) tables[static_cast<size_t>(r)] = RoiTables(boxes, r);
  });
  const std::vector<RoiBand> bands = make_bands(boxes, tables, dlevels);
  // The most expensive bands come first and are dealt out in turns.
  std::vector<size_t> order(bands.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t b) { return bands[b].cost; });
  const auto hands = static_cast<size_t>(std::max(thread_count(), 1));
  parallel_for(static_cast<int64_t>(hands), 1, [&](int64_t begin, int64_t end) {
    LaneVector<float> strip(static_cast<size_t>(boxes.size) * static_cast<size_t>(boxes.C)), wide;
    for (auto hand = static_cast<size_t>(begin); hand < static_cast<size_t>(end); ++hand)
      for (size_t i = hand; i < order.size(); i += hands) {
        const RoiBand& band = bands[order[i]];
        const int64_t row = int64_t{boxes.width[band.level]} * boxes.C;
        const int64_t count = (band.last - band.first) * row;
        T* out = dlevels[static_cast<size_t>(band.level)].data<T>() +
                 (int64_t{band.image} * boxes.height[band.level] + band.first) * row;
        if constexpr (std::is_same_v<T, float>) {
          fill_band(boxes, tables, band, dy.data<T>(), out, strip.data());
        } else {
          wide.resize(static_cast<size_t>(count));
          fill_band(boxes, tables, band, dy.data<T>(), wide.data(), strip.data());
          for (int64_t c = 0; c < count; c += kLanes)
            cpu::store_some(out + c, cpu::load_some(wide.data() + c, count - c), count - c);
        }
      }
  });
}

void forward_cpu(const Tensor& rois, const Tensor& level_of_roi, const Tensor& image_of_roi,
                 const std::vector<Tensor>& levels, const RoiAlignParams& p, Tensor& y) {
  dispatch_dtype<float, bf16>(y.dtype(), "roi_align", [&]<class T>() {
    forward_typed<T>(RoiBoxes(rois, level_of_roi, image_of_roi, levels, p), levels, y);
  });
}

void backward_cpu(const Tensor& rois, const Tensor& level_of_roi, const Tensor& image_of_roi,
                  const Tensor& dy, const RoiAlignParams& p, std::vector<Tensor>& dlevels) {
  dispatch_dtype<float, bf16>(dy.dtype(), "roi_align", [&]<class T>() {
    backward_typed<T>(RoiBoxes(rois, level_of_roi, image_of_roi, dlevels, p), dy, dlevels);
  });
}

bool forward_supported(const Tensor&, const Tensor&, const Tensor&, const std::vector<Tensor>&,
                       const RoiAlignParams&, const Tensor& y) {
  return takes_f32_or_bf16(y);
}
bool backward_supported(const Tensor&, const Tensor&, const Tensor&, const Tensor& dy, const RoiAlignParams&,
                        const std::vector<Tensor>&) {
  return takes_f32_or_bf16(dy);
}

SACCADE_REGISTER_TUNED_KERNEL(roi_align_forward, Device::kCpu, &forward_cpu, &forward_supported);
SACCADE_REGISTER_TUNED_KERNEL(roi_align_backward, Device::kCpu, &backward_cpu, &backward_supported);

}  // namespace
}  // namespace saccade::kernels
