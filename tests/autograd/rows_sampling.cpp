// Rows of grid_sample, sampled_position_bias and ms_deform_attn. Bilinear interpolation has kinks at cell
// borders: samples keep 0.15 cells away.
#include <cmath>

#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

// Value of channel c of a map at pixel (x, y), zeros outside: the tent formula sum of max(0, 1 - |x - j|) ...
double tent_sample(int64_t height, int64_t width, double x, double y,
                   const std::function<double(int64_t, int64_t)>& cell) {
  double sum = 0;
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      double wy = std::max(0.0, 1 - std::abs(y - static_cast<double>(i)));
      double wx = std::max(0.0, 1 - std::abs(x - static_cast<double>(j)));
      sum += wx * wy * cell(i, j);
    }
  }
  return sum;
}

// A pixel position from two cells before the map to two behind it, away from cell borders.
double position(Rng& rng, int64_t size) {
  return static_cast<double>(rng.below(size + 4) - 2) + rng.uniform(0.15, 0.85);
}

// With groups 0 the grid has no axis of groups.
Sample grid_case(Rng& rng, const char* label, const Shape& x, int64_t points, bool align,
                 int64_t groups = 0) {
  int64_t H = x[1], W = x[2];
  Tensor grid = Tensor::empty(groups ? Shape{x[0], groups, points, 2} : Shape{x[0], points, 2}, DType::kF64);
  for (int64_t i = 0; i < grid.numel() / 2; ++i) {
    for (int axis = 0; axis < 2; ++axis) {
      int64_t size = axis == 0 ? W : H;
      double at = position(rng, size);
      double w = static_cast<double>(size);
      grid.data<double>()[2 * i + axis] = align ? 2 * at / (w - 1) - 1 : (2 * at + 1) / w - 1;
    }
  }
  auto reference = [align](const Tensors& in) {
    const Tensor &m = in[0], g = in[1].rank() == 3 ? in[1].unsqueeze(1) : in[1];
    int64_t channels = m.dim(3) / g.dim(1);  // of a group
    double h = static_cast<double>(m.dim(1)), w = static_cast<double>(m.dim(2));
    return build({m.dim(0), g.dim(2), m.dim(3)}, [&](const std::vector<int64_t>& i) {
      double gx = at(g, {i[0], i[2] / channels, i[1], 0}), gy = at(g, {i[0], i[2] / channels, i[1], 1});
      double px = align ? (gx + 1) / 2 * (w - 1) : ((gx + 1) * w - 1) / 2;
      double py = align ? (gy + 1) / 2 * (h - 1) : ((gy + 1) * h - 1) / 2;
      return tent_sample(m.dim(1), m.dim(2), px, py, [&](int64_t r, int64_t c) {
        return at(m, {i[0], r, c, i[2]});
      });
    });
  };
  return {label,
          {uniform(rng, x), grid},
          [align](const Vars& v) { return grid_sample(v[0], v[1], align); },
          reference,
          {},
          {1}};
}

const Register kGridSample(Row{
    "grid_sample",
    Bf16::kInputs,
    {.why = "f32: a coordinate is exact to 1e-6 of a cell, times slopes of order 1; bf16: one rounding of "
            "the result"},
    [](Rng& rng) {
      return std::vector<Sample>{
          grid_case(rng, "edges", {2, 5, 4, 3}, 9, false),
          grid_case(rng, "corners aligned", {2, 4, 5, 3}, 9, true),
          grid_case(rng, "many channels, one image", {1, 3, 3, 37}, 4, true),
          grid_case(rng, "three groups", {2, 4, 5, 6}, 7, true, 3),
          grid_case(rng, "groups of many channels", {1, 3, 3, 66}, 4, false, 2),
          grid_case(rng, "two tiles, as many points as cells", {1, 9, 4, 8}, 36, false, 2),
          grid_case(rng, "no points", {2, 3, 3, 4}, 0, false),
          grid_case(rng, "no images", {0, 3, 3, 4}, 2, true),
      };
    },
    {{"grid of another batch",
      [] {
        grid_sample(Var(Tensor::zeros({2, 3, 3, 1})), Var(Tensor::zeros({1, 4, 2})), true);
      },
      R"(\[grid_sample\] grid, got \[1, 4, 2\], expected \[2, P, 2\])"},
     {"groups that do not divide the channels",
      [] {
        grid_sample(Var(Tensor::zeros({2, 3, 3, 4})), Var(Tensor::zeros({2, 3, 5, 2})), true);
      },
      R"(\[grid_sample\] 3 groups of points, expected a divisor of the 4 channels)"},
     {"x of rank 3",
      [] {
        grid_sample(Var(Tensor::zeros({3, 3, 1})), Var(Tensor::zeros({1, 4, 2})), true);
      },
      R"(\[grid_sample\] x, got \[3, 3, 1\])"}}});

struct BiasShape {
  int64_t N, H, rows, columns, Q, G, S;
  int64_t query_n = 1;
};

// Keys are at whole cells, queries are not: every displacement keeps away from the table's cell borders.
Sample bias_case(Rng& rng, const char* label, const BiasShape& s) {
  auto point = [&](int64_t axis, double cells) {  // half a displacement of so many cells
    int64_t size = axis == 0 ? s.columns : s.rows;
    return size > 1 ? 4 * cells / static_cast<double>(size - 1) : cells;
  };
  auto whole = [&](int64_t axis) {
    int64_t reach = (axis == 0 ? s.columns : s.rows) / 4 + 1;  // a little outside the table
    return static_cast<double>(rng.below(2 * reach + 1) - reach);
  };
  // Odd sizes put the middle of the table on a cell.
  Tensor query = build({s.query_n, s.Q, 2}, [&](const std::vector<int64_t>& i) {
    return point(i[2], whole(i[2]) + rng.uniform(0.15, 0.85));
  });
  Tensor key =
      build({s.N, s.G, s.S, 2}, [&](const std::vector<int64_t>& i) { return point(i[3], whole(i[3])); });
  auto reference = [s](const Tensors& in) {
    double h = static_cast<double>(s.rows), w = static_cast<double>(s.columns);
    return build({s.N, s.H, s.Q, s.S}, [&](const std::vector<int64_t>& i) {
      int64_t n = i[0], g = i[1] / (s.H / s.G), qn = s.query_n == 1 ? 0 : n;
      double dx = (at(in[1], {qn, i[2], 0}) - at(in[2], {n, g, i[3], 0})) / 2;
      double dy = (at(in[1], {qn, i[2], 1}) - at(in[2], {n, g, i[3], 1})) / 2;
      return tent_sample(s.rows, s.columns, (dx + 1) / 2 * (w - 1), (dy + 1) / 2 * (h - 1),
                         [&](int64_t r, int64_t c) {
                           return at(in[0], {i[1], r, c});
                         });
    });
  };
  return {label,
          {uniform(rng, {s.H, s.rows, s.columns}), query, key},
          [](const Vars& v) { return sampled_position_bias(v[0], v[1], v[2]); },
          reference};
}

const Register kSampledPositionBias(Row{
    "sampled_position_bias",
    Bf16::kExact,
    {.why = "a position is exact to 1e-6 of a cell; its gradient multiplies by the table's size and cancels "
            "between neighbouring entries",
     .magnitude = 1e-2},
    [](Rng& rng) {
      return std::vector<Sample>{
          bias_case(rng, "one group", {2, 2, 5, 7, 6, 1, 5}),
          bias_case(rng, "groups of three heads", {2, 6, 7, 5, 5, 2, 6}),
          bias_case(rng, "groups of six heads, over 16 keys", {1, 12, 5, 5, 3, 2, 19}),
          bias_case(rng, "many pairs a cell", {1, 1, 3, 5, 96, 1, 90}),
          bias_case(rng, "queries of each image", {3, 4, 5, 5, 4, 2, 3, 3}),
          bias_case(rng, "a table of one row", {1, 2, 1, 5, 3, 1, 4}),
          bias_case(rng, "one entry", {1, 4, 1, 1, 2, 1, 4}),
          bias_case(rng, "no keys", {1, 2, 3, 3, 2, 1, 0}),
          bias_case(rng, "no queries", {1, 2, 3, 3, 0, 1, 2}),
          bias_case(rng, "no images", {0, 2, 3, 3, 2, 1, 2}),
      };
    },
    {{"groups",
      [] {
        sampled_position_bias(Var(Tensor::zeros({4, 3, 3})), Var(Tensor::zeros({1, 2, 2})),
                              Var(Tensor::zeros({1, 3, 2, 2})));
      },
      R"(\[sampled_position_bias\] key points, got \[1, 3, 2, 2\], expected \[N, G, S, 2\] with G a divisor)"},
     {"batch of the queries",
      [] {
        sampled_position_bias(Var(Tensor::zeros({4, 3, 3})), Var(Tensor::zeros({2, 2, 2})),
                              Var(Tensor::zeros({3, 2, 2, 2})));
      },
      R"(\[sampled_position_bias\] query points, got \[2, 2, 2\], expected \[3 or 1, Q, 2\])"},
     {"table",
      [] {
        sampled_position_bias(Var(Tensor::zeros({4, 0, 3})), Var(Tensor::zeros({1, 2, 2})),
                              Var(Tensor::zeros({3, 2, 2, 2})));
      },
      R"(\[sampled_position_bias\] table, got \[4, 0, 3\])"}}});

struct DeformShape {
  int64_t N, Q, M, D, P;
  int R;
  FeatureLevels levels;
};

Sample deform_case(Rng& rng, const char* label, const DeformShape& s) {
  int64_t L = s.levels.size(), S = s.levels.tokens();
  Tensor value = uniform(rng, {s.N, S, s.M, s.D}), logits = uniform(rng, {s.N, s.Q, s.M, L * s.P}, -2, 2);
  Tensor reference = uniform(rng, {s.N, s.Q, L, s.R}, 0.2, 0.8);
  // These offsets lead to the wanted positions.
  Tensor offsets = build({s.N, s.Q, s.M, L, s.P, 2}, [&](const std::vector<int64_t>& i) {
    const MapSize& level = s.levels[i[3]];
    int64_t size = i[5] == 0 ? level.width : level.height;
    double location = (position(rng, size) + 0.5) / static_cast<double>(size);
    double delta = location - at(reference, {i[0], i[1], i[3], i[5]});
    if (s.R == 2) return delta * static_cast<double>(size);
    return delta / (at(reference, {i[0], i[1], i[3], i[5] + 2}) * 0.5) * static_cast<double>(s.P);
  });
  auto levels = s.levels;
  auto fn = [levels](const Vars& v) { return ms_deform_attn(v[0], v[1], v[2], v[3], levels); };
  auto expected = [s, L](const Tensors& in) {
    return build({s.N, s.Q, s.M * s.D}, [&](const std::vector<int64_t>& i) {
      int64_t n = i[0], q = i[1], m = i[2] / s.D, d = i[2] % s.D, start = 0;
      double sum = 0, total = 0;
      for (int64_t j = 0; j < L * s.P; ++j) total += std::exp(at(in[3], {n, q, m, j}));
      for (int64_t l = 0; l < L; ++l) {
        const MapSize& level = s.levels[l];
        double w = static_cast<double>(level.width), h = static_cast<double>(level.height);
        for (int64_t p = 0; p < s.P; ++p) {
          double x = at(in[2], {n, q, m, l, p, 0}), y = at(in[2], {n, q, m, l, p, 1});
          double sx = s.R == 2 ? 1 / w : at(in[1], {n, q, l, 2}) * 0.5 / static_cast<double>(s.P);
          double sy = s.R == 2 ? 1 / h : at(in[1], {n, q, l, 3}) * 0.5 / static_cast<double>(s.P);
          x = (at(in[1], {n, q, l, 0}) + x * sx) * w - 0.5;
          y = (at(in[1], {n, q, l, 1}) + y * sy) * h - 0.5;
          double weight = std::exp(at(in[3], {n, q, m, l * s.P + p})) / total;
          sum += weight * tent_sample(level.height, level.width, x, y, [&](int64_t r, int64_t c) {
                   return at(in[0], {n, start + r * level.width + c, m, d});
                 });
        }
        start += level.cells();
      }
      return sum;
    });
  };
  return {label, {value, reference, offsets, logits}, fn, expected, {}, {1, 2, 3}};
}

// The points are anywhere around the map, away from where they change to another cell.
Sample cells_case(Rng& rng, const char* label, const DeformShape& s) {
  const int64_t L = s.levels.size();
  Tensor reference = uniform(rng, {s.N, s.Q, L, s.R}, 0.2, 0.8);
  auto levels = s.levels;
  auto size_of = [levels](int64_t level, int64_t axis) {
    return static_cast<double>(axis == 0 ? levels[level].width : levels[level].height);
  };
  const double unit = 0.5 / static_cast<double>(s.P);
  Tensor offsets = build({s.N, s.Q, s.M, L, s.P, 2}, [&](const std::vector<int64_t>& i) {
    const double size = size_of(i[3], i[5]);
    const double delta =
        (position(rng, static_cast<int64_t>(size)) - 0.5) / size - at(reference, {i[0], i[1], i[3], i[5]});
    return s.R == 2 ? delta * size : delta / (at(reference, {i[0], i[1], i[3], i[5] + 2}) * unit);
  });
  auto expected = [s, L, size_of, unit](const Tensors& in) {
    return build({s.N, s.Q, s.M, L, s.P, 2}, [&](const std::vector<int64_t>& i) {
      const double size = size_of(i[3], i[5]);
      const double scale = s.R == 2 ? 1 / size : at(in[0], {i[0], i[1], i[3], i[5] + 2}) * unit;
      const double location = at(in[0], {i[0], i[1], i[3], i[5]}) + at(in[1], i) * scale;
      return std::clamp(std::trunc(location * size + 0.5), 0.0, size - 1) + 0.5;
    });
  };
  return {label,
          {reference, offsets},
          [levels](const Vars& v) { return ms_deform_cells(v[0], v[1], levels); },
          expected};
}

const Register kMsDeformCells(Row{
    "ms_deform_cells",
    Bf16::kExact,
    {.why = "nothing: cells are whole numbers and a half"},
    [](Rng& rng) {
      return std::vector<Sample>{
          cells_case(rng, "points", {2, 3, 2, 0, 2, 2, {{4, 5}, {2, 3}}}),
          cells_case(rng, "boxes", {2, 3, 2, 0, 3, 4, {{4, 5}, {1, 3}}}),
          cells_case(rng, "no queries", {2, 0, 1, 0, 2, 2, {{2, 2}}}),
      };
    },
    {{"levels of the reference points",
      [] {
        ms_deform_cells(Var(Tensor::zeros({1, 3, 2, 2})), Var(Tensor::zeros({1, 3, 2, 1, 4, 2})), {{2, 3}});
      },
      R"(\[ms_deform_cells\] reference points, got \[1, 3, 2, 2\], expected \[1, 3, 1, 2 or 4\])"}}});

Var deform_zeros(const Shape& value, const Shape& reference, const Shape& offsets, const Shape& logits) {
  FeatureLevels levels{{2, 3}};
  return ms_deform_attn(Var(Tensor::zeros(value)), Var(Tensor::zeros(reference)), Var(Tensor::zeros(offsets)),
                        Var(Tensor::zeros(logits)), levels);
}

const Register kMsDeformAttn(Row{
    "ms_deform_attn",
    Bf16::kCompute,
    {.why = "f32: offsets of up to 30 in units of 1/P boxes are exact to 4e-6 of a cell, gradients "
            "multiply by the map size; bf16: values, results and their gradients rounded once"},
    [](Rng& rng) {
      return std::vector<Sample>{
          deform_case(rng, "points", {2, 3, 2, 5, 2, 2, {{4, 5}, {2, 3}}}),
          deform_case(rng, "boxes", {2, 3, 2, 5, 2, 4, {{4, 5}, {2, 3}}}),
          deform_case(rng, "one level, one image", {1, 4, 1, 16, 4, 2, {{3, 4}}}),
          deform_case(rng, "32 channels", {1, 3, 2, 32, 4, 2, {{3, 4}, {2, 2}}}),
          deform_case(rng, "64 channels, boxes", {1, 2, 1, 64, 3, 4, {{2, 3}, {2, 2}}}),
          deform_case(rng, "over 16 points", {1, 2, 1, 3, 5, 2, {{3, 3}, {2, 2}, {1, 2}, {1, 1}}}),
          deform_case(rng, "five levels, 30 channels",
                      {2, 3, 1, 30, 1, 2, {{9, 3}, {3, 9}, {2, 2}, {1, 2}, {1, 1}}}),
          deform_case(rng, "as many queries as cells", {1, 22, 1, 8, 2, 4, {{4, 4}, {2, 3}}}),
          deform_case(rng, "no queries", {2, 0, 1, 4, 2, 2, {{2, 2}}}),
          deform_case(rng, "no images", {0, 2, 1, 4, 2, 2, {{2, 2}}}),
      };
    },
    {{"tokens",
      [] {
        deform_zeros({1, 5, 2, 4}, {1, 3, 1, 2}, {1, 3, 2, 1, 4, 2}, {1, 3, 2, 4});
      },
      R"(\[ms_deform_attn\] value, got \[1, 5, 2, 4\], expected \[N, S, M, D\] with S = 6)"},
     {"levels of the offsets",
      [] {
        deform_zeros({1, 6, 2, 4}, {1, 3, 1, 2}, {1, 3, 2, 2, 4, 2}, {1, 3, 2, 8});
      },
      R"(\[ms_deform_attn\] offsets, got \[1, 3, 2, 2, 4, 2\], expected \[1, Q, 2, 1, P, 2\])"},
     {"logits",
      [] {
        deform_zeros({1, 6, 2, 4}, {1, 3, 1, 2}, {1, 3, 2, 1, 4, 2}, {1, 3, 2, 5});
      },
      R"(\[ms_deform_attn\] logits, got \[1, 3, 2, 5\], expected \[1, 3, 2, 4\])"},
     {"reference points of three numbers",
      [] {
        deform_zeros({1, 6, 2, 4}, {1, 3, 1, 3}, {1, 3, 2, 1, 4, 2}, {1, 3, 2, 4});
      },
      R"(\[ms_deform_attn\] reference points, got \[1, 3, 1, 3\])"}}});

}  // namespace
}  // namespace saccade::optable
