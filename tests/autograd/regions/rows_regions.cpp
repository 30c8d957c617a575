// Rows of roi_align, resize_nearest and resize_bilinear, which are linear in their maps.
#include <cmath>

#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

// Returns the cells read at a position of an axis, with weights; none more than one cell beyond the centres.
std::vector<std::pair<int64_t, double>> read_axis(double position, int64_t length) {
  if (position < -1 || position > static_cast<double>(length)) return {};
  position = std::clamp(position, 0.0, static_cast<double>(length - 1));
  const auto low = static_cast<int64_t>(position);
  const double part = position - static_cast<double>(low);
  if (low + 1 >= length) return {{low, 1}};
  return {{low, 1 - part}, {low + 1, part}};
}

struct RoiCase {
  int64_t N, C;
  std::vector<MapSize> maps;
  RoiAlignOptions options;
  int64_t boxes;
  std::vector<std::array<float, 4>> further = {};  // on level 0 of image 0
};

Sample roi_case(Rng& rng, const char* label, const RoiCase& s) {
  Tensors inputs;
  for (const MapSize& map : s.maps) inputs.push_back(uniform(rng, {s.N, map.height, map.width, s.C}));
  std::vector<float> corners;
  std::vector<int64_t> levels, images;
  for (int64_t r = 0; r < s.boxes; ++r) {
    const int64_t level = rng.below(std::ssize(s.maps));
    const MapSize& map = s.maps[static_cast<size_t>(level)];
    const auto stride = static_cast<double>(s.options.strides[static_cast<size_t>(level)]);
    for (int64_t size : {map.width, map.height}) {
      const double length = static_cast<double>(size) * stride;
      const double a = rng.uniform(-0.2, 0.9) * length, b = a + rng.uniform(0.05, 0.9) * length;
      corners.push_back(static_cast<float>(a));
      corners.push_back(static_cast<float>(b));
    }
    std::swap(corners[corners.size() - 3], corners[corners.size() - 2]);
    levels.push_back(level);
    images.push_back(rng.below(s.N));
  }
  for (const auto& box : s.further) {
    corners.insert(corners.end(), box.begin(), box.end());
    levels.push_back(0);
    images.push_back(0);
  }
  if (s.boxes > 2) levels[1] = -1;
  const int64_t R = std::ssize(levels), size = s.options.size;
  const Tensor rois = Tensor::from<float>({R, 4}, corners), level_of_roi = Tensor::from<int64_t>({R}, levels),
               image_of_roi = Tensor::from<int64_t>({R}, images);
  auto fn = [=, options = s.options](const Vars& maps) {
    return roi_align(maps, rois, level_of_roi, image_of_roi, options);
  };
  auto reference = [=](const Tensors& in) {
    return build({R, size, size, s.C}, [&](const std::vector<int64_t>& i) {
      const auto r = static_cast<size_t>(i[0]);
      if (levels[r] < 0) return 0.0;
      const Tensor& map = in[static_cast<size_t>(levels[r])];
      const auto stride = static_cast<double>(s.options.strides[static_cast<size_t>(levels[r])]);
      std::vector<std::vector<double>> positions(2);
      for (size_t axis = 0; axis < 2; ++axis) {  // rows first
        const double a = static_cast<double>(corners[4 * r + 1 - axis]) / stride;
        double length = static_cast<double>(corners[4 * r + 3 - axis]) / stride - a;
        if (!s.options.aligned) length = std::max(length, 1.0);
        const double bin = length / static_cast<double>(size);
        const int64_t samples =
            s.options.sampling_ratio > 0 ? s.options.sampling_ratio : static_cast<int64_t>(std::ceil(bin));
        for (int64_t k = 0; k < samples && length > 0; ++k)
          positions[axis].push_back(a - (s.options.aligned ? 0.5 : 0) +
                                    static_cast<double>(i[axis + 1]) * bin +
                                    (static_cast<double>(k) + 0.5) * bin / static_cast<double>(samples));
      }
      double sum = 0;
      for (double y : positions[0])
        for (double x : positions[1])
          for (const auto& [row, wy] : read_axis(y, map.dim(1)))
            for (const auto& [column, wx] : read_axis(x, map.dim(2)))
              sum += wy * wx * at(map, {images[r], row, column, i[3]});
      return sum / static_cast<double>(std::max<size_t>(positions[0].size() * positions[1].size(), 1));
    });
  };
  return {label, inputs, fn, reference};
}

Var roi_zeros(const Shape& rois, DType dtype, int64_t levels_of, const RoiAlignOptions& options) {
  return roi_align({Var(Tensor::zeros({1, 4, 4, 2}))}, Tensor::zeros(rois, dtype),
                   Tensor::zeros({levels_of}, DType::kI64), Tensor::zeros({2}, DType::kI64), options);
}

const Register kRoiAlign(Row{
    "roi_align",
    Bf16::kInputs,
    {.why =
         "f32: positions are exact to 1e-6 of a cell; sums of up to some hundred samples; bf16: one rounding of a result"},
    [](Rng& rng) {
      return std::vector<Sample>{
          roi_case(rng, "two levels, adaptive", {2, 3, {{9, 8}, {4, 5}}, {3, {4, 8}}, 5}),
          roi_case(rng, "many samples, one cell", {1, 2, {{12, 17}}, {1, {2}}, 3}),
          roi_case(rng, "two samples a side", {2, 5, {{6, 7}}, {2, {16}, 2}, 4}),
          roi_case(rng, "not aligned", {1, 4, {{6, 5}, {3, 3}}, {3, {8, 16}, 2, false}, 4, {{3, 3, 4, 5}}}),
          roi_case(rng, "19 channels", {1, 19, {{5, 6}}, {2, {4}}, 3}),
          roi_case(rng, "32 channels, smaller than a cell", {1, 32, {{4, 4}}, {3, {8}}, 1, {{9, 9, 11, 10}}}),
          roi_case(rng, "no size, inverted, far outside",
                   {1,
                    2,
                    {{4, 5}},
                    {2, {4}},
                    1,
                    {{3, 3, 3, 9}, {8, 8, 2, 2}, {100, 100, 160, 160}, {-60, 2, 70, 9}}}),
          roi_case(rng, "maps of one cell", {2, 2, {{1, 1}, {1, 3}}, {2, {8, 8}}, 4}),
          roi_case(rng, "no boxes", {2, 3, {{3, 4}}, {2, {4}}, 0}),
      };
    },
    {{"strides",
      [] {
        roi_zeros({2, 4}, DType::kF32, 2, {7, {4, 8}});
      },
      R"(\[roi_align\] 1 levels and 2 strides, expected the same number of both, 1 to 8)"},
     {"rois",
      [] {
        roi_zeros({2, 5}, DType::kF32, 2, {7, {4}});
      },
      R"(\[roi_align\] rois, got f32 \[2, 5\], expected f32 \[R, 4\])"},
     {"levels of the rois",
      [] {
        roi_zeros({2, 4}, DType::kF32, 3, {7, {4}});
      },
      R"(\[roi_align\] levels or images of the rois, got i64 \[3\], expected i64 \[2\])"},
     {"size",
      [] {
        roi_zeros({2, 4}, DType::kF32, 2, {0, {4}});
      },
      R"(\[roi_align\] got size 0, sampling ratio 0)"}}});

Sample resize_case(Rng& rng, const char* label, const Shape& x, int64_t height, int64_t width,
                   bool bilinear) {
  auto reference = [=](const Tensors& in) {
    return build({x[0], height, width, x[3]}, [&](const std::vector<int64_t>& i) {
      auto cells = [&](int64_t out, int64_t before, int64_t after) {
        if (!bilinear) return read_axis(static_cast<double>(out * before / after), before);
        const double scale = static_cast<double>(before) / static_cast<double>(after);
        return read_axis(std::max(0.0, (static_cast<double>(out) + 0.5) * scale - 0.5), before);
      };
      double sum = 0;
      for (const auto& [row, wy] : cells(i[1], x[1], height))
        for (const auto& [column, wx] : cells(i[2], x[2], width))
          sum += wy * wx * at(in[0], {i[0], row, column, i[3]});
      return sum;
    });
  };
  auto fn = [=](const Vars& v) {
    return bilinear ? resize_bilinear(v[0], height, width) : resize_nearest(v[0], height, width);
  };
  return {label, {uniform(rng, x)}, fn, reference};
}

std::vector<Sample> resize_cases(Rng& rng, bool bilinear) {
  return {
      resize_case(rng, "twice", {2, 3, 4, 3}, 6, 8, bilinear),
      resize_case(rng, "odd sizes", {1, 3, 4, 9}, 5, 7, bilinear),
      resize_case(rng, "smaller", {1, 7, 9, 2}, 3, 2, bilinear),
      resize_case(rng, "one axis up, one down, 16 channels", {1, 2, 9, 16}, 7, 4, bilinear),
      resize_case(rng, "from one cell", {2, 1, 1, 2}, 3, 4, bilinear),
      resize_case(rng, "to one cell", {1, 4, 5, 2}, 1, 1, bilinear),
      resize_case(rng, "by 17 / 3", {1, 3, 17, 1}, 17, 3, bilinear),
      resize_case(rng, "the same size", {1, 2, 3, 2}, 2, 3, bilinear),
      resize_case(rng, "no images", {0, 2, 3, 2}, 4, 4, bilinear),
      resize_case(rng, "blocks of 64, 16, 4 and 1 channels", {1, 2, 2, 85}, 3, 3, bilinear),
  };
}

const Register kResizeNearest(Row{
    "resize_nearest",
    Bf16::kExact,
    {.why = "values are copied; a gradient is a sum of few values, in bf16 rounded once"},
    [](Rng& rng) { return resize_cases(rng, false); },
    {{"height",
      [] {
        resize_nearest(Var(Tensor::zeros({1, 2, 2, 1})), 0, 4);
      },
      R"(\[resize_nearest\] got a size of 0 x 4)"},
     {"no cells",
      [] {
        resize_nearest(Var(Tensor::zeros({1, 0, 2, 1})), 2, 4);
      },
      R"(\[resize_nearest\] x, got \[1, 0, 2, 1\])"}}});

const Register kResizeBilinear(Row{
    "resize_bilinear",
    Bf16::kInputs,
    {.why = "f32: a position is exact to 1e-7 of the map; bf16: one rounding of a result"},
    [](Rng& rng) { return resize_cases(rng, true); },
    {{"rank",
      [] {
        resize_bilinear(Var(Tensor::zeros({2, 2, 1})), 2, 4);
      },
      R"(\[resize_bilinear\] x, got \[2, 2, 1\], expected \[N, H, W, C\])"}}});

}  // namespace
}  // namespace saccade::optable
